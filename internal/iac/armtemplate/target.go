package armtemplate

import (
	"cmp"
	"fmt"
	"strings"
)

// target is the scope of a deployment: a resource group, a subscription, a management group, any
// resource (scope), or, if nothing is set, the tenant. Unknown parts are in braces, which Azure's
// names cannot contain.
type target struct {
	subscription, group, managementGroup, scope string
}

// targetOf derives the scope of the deployment from the template's schema.
func targetOf(template *Object, o Options) target {
	schema := strings.ToLower(template.Text("$schema"))
	subscription := cmp.Or(o.Subscription, "{subscription}")
	switch {
	case strings.Contains(schema, "subscriptiondeploymenttemplate"):
		return target{subscription: subscription}
	case strings.Contains(schema, "managementgroupdeploymenttemplate"):
		return target{managementGroup: cmp.Or(o.ManagementGroup, "{management-group}")}
	case strings.Contains(schema, "tenantdeploymenttemplate"):
		return target{}
	}
	return target{subscription: subscription, group: cmp.Or(o.ResourceGroup, "{resource-group}")}
}

func (t target) prefix() string {
	switch {
	case t.scope != "":
		return t.scope
	case t.group != "":
		return "/subscriptions/" + t.subscription + "/resourceGroups/" + t.group
	case t.subscription != "":
		return "/subscriptions/" + t.subscription
	case t.managementGroup != "":
		return "/providers/Microsoft.Management/managementGroups/" + t.managementGroup
	}
	return ""
}

// within returns the target that a resource's scope names: an ID, the tenant (/), or a type with a
// name.
func (t target) within(scope string) target {
	switch {
	case scope == "/":
		return target{}
	case strings.HasPrefix(scope, "/"):
		return target{scope: scope}
	}
	return target{scope: t.prefix() + "/providers/" + scope}
}

// id returns the ID of a resource in the target, or "" if the numbers of names and types differ.
func (t target) id(resourceType, name string) string {
	if strings.EqualFold(resourceType, "Microsoft.Resources/resourceGroups") && t.scope == "" {
		return "/subscriptions/" + t.subscription + "/resourceGroups/" + name
	}
	types, names := strings.Split(resourceType, "/"), strings.Split(name, "/")
	if len(types) != len(names)+1 {
		return ""
	}
	var b strings.Builder
	b.WriteString(t.prefix() + "/providers/" + types[0])
	for i, name := range names {
		b.WriteString("/" + types[i+1] + "/" + name)
	}
	return b.String()
}

// marked returns an Opaque for text with unknown parts in braces.
func marked(text string) any {
	if strings.Contains(text, "{") {
		return Opaque(text)
	}
	return text
}

// Functions on scopes and IDs (template-functions-resource, template-functions-scope).
var scopeFunctions = map[string]function{
	"resourceId":                {min: 2, max: -1, open: true, call: idIn(ofResource)},
	"subscriptionResourceId":    {min: 2, max: -1, open: true, call: idIn(ofSubscription)},
	"tenantResourceId":          {min: 2, max: -1, open: true, call: idIn(ofTenant)},
	"managementGroupResourceId": {min: 2, max: -1, open: true, call: idIn(ofManagementGroup)},
	"extensionResourceId":       {min: 3, max: -1, open: true, call: extensionResourceID},
	"resourceGroup":             {max: 0, call: resourceGroup},
	"subscription":              {max: 0, call: subscription},
	"managementGroup":           {max: 0, call: managementGroup},
	"tenant":                    {max: 0, call: tenant},
	"deployment":                {max: 0, call: thisDeployment},
	"deployer":                  {max: 0, call: deployer},
}

// idParts splits the arguments of resourceId into the ones before the type, the type, and the
// names.
func idParts(args []any) (before []string, resourceType, name string, err error) {
	for i, arg := range args {
		text, is := TextOf(arg)
		if !is {
			return nil, "", "", fmt.Errorf("expected strings, not %s", kindOf(arg))
		}
		if !strings.Contains(text, "/") {
			before = append(before, text)
			continue
		}
		names := make([]string, 0, len(args)-i-1)
		for _, arg := range args[i+1:] {
			n, is := TextOf(arg)
			if !is {
				return nil, "", "", fmt.Errorf("expected strings, not %s", kindOf(arg))
			}
			names = append(names, n)
		}
		if strings.Count(text, "/") != len(names) {
			return nil, "", "", fmt.Errorf("the type %s takes %d names, not %d", shorten(text),
				strings.Count(text, "/"), len(names))
		}
		return before, text, strings.Join(names, "/"), nil
	}
	return nil, "", "", fmt.Errorf("there is no resource type among the arguments")
}

// idIn makes the function for IDs in a scope; at gets the arguments before the resource type, and
// returns the scope that they name.
func idIn(at func(x *scope, before []string) (target, error)) func(*scope, []any) (any, error) {
	return func(x *scope, args []any) (any, error) {
		if u := unknownOf(args); u != nil {
			return u, nil
		}
		before, resourceType, name, err := idParts(args)
		if err != nil {
			return nil, err
		}
		t, err := at(x, before)
		if err != nil {
			return nil, err
		}
		id := t.id(resourceType, name)
		if id == "" {
			return nil, fmt.Errorf("the name %s does not fit the type %s", shorten(name),
				shorten(resourceType))
		}
		return marked(id), nil
	}
}

func ofResource(x *scope, before []string) (target, error) {
	t := x.d.expressions().at
	t.scope = ""
	switch {
	case len(before) == 1 && t.group != "":
		t.group = before[0]
	case len(before) == 1:
		t = target{subscription: before[0]}
	case len(before) == 2:
		t = target{subscription: before[0], group: before[1]}
	case len(before) > 2:
		return t, fmt.Errorf("there are %d arguments before the type", len(before))
	}
	return t, nil
}

func ofSubscription(x *scope, before []string) (target, error) {
	if len(before) > 0 {
		return target{subscription: before[0]}, nil
	}
	return target{subscription: x.d.expressions().at.subscription}, nil
}

func ofTenant(*scope, []string) (target, error) { return target{}, nil }

func ofManagementGroup(x *scope, before []string) (target, error) {
	if len(before) > 0 {
		return target{managementGroup: before[0]}, nil
	}
	return x.managementGroup(), nil
}

func (x *scope) managementGroup() target {
	return target{managementGroup: cmp.Or(x.d.expressions().at.managementGroup,
		"{management-group}")}
}

func extensionResourceID(x *scope, args []any) (any, error) {
	base, is := TextOf(args[0])
	if !is {
		return idIn(ofTenant)(x, args[:1])
	}
	return idIn(func(*scope, []string) (target, error) {
		return target{scope: strings.TrimSuffix(base, "/")}, nil
	})(x, args[1:])
}

// partlyKnown returns an object of names and values, which may have more members that are unknown.
func partlyKnown(why string, pairs ...string) *Object {
	o := &Object{Open: &Unknown{Why: why}}
	for i := 0; i < len(pairs); i += 2 {
		o.set(pairs[i], marked(pairs[i+1]), 0)
	}
	return o
}

func resourceGroup(x *scope, _ []any) (any, error) {
	t := x.d.expressions().at
	if t.group == "" {
		return nil, fmt.Errorf("the template is not deployed to a resource group")
	}
	t.scope = ""
	if x.d.world != nil {
		return x.d.world.Resource(t.prefix(), "")
	}
	return partlyKnown("the resource group", "id",
		t.prefix(), "name", t.group, "type", "Microsoft.Resources/resourceGroups", "location",
		cmp.Or(x.d.options.Location, "{location}")), nil
}

func subscription(x *scope, _ []any) (any, error) {
	id := x.d.expressions().at.subscription
	if id == "" {
		return nil, fmt.Errorf("the template is not deployed to a subscription")
	}
	if x.d.world != nil {
		return x.d.world.Resource("/subscriptions/"+id, "")
	}
	return partlyKnown("the subscription", "id", "/subscriptions/"+id, "subscriptionId", id,
		"tenantId", "{tenant}", "displayName", "{subscription-name}"), nil
}

func managementGroup(x *scope, _ []any) (any, error) {
	t := x.managementGroup()
	return partlyKnown("the management group", "id", t.prefix(), "name", t.managementGroup, "type",
		"Microsoft.Management/managementGroups"), nil
}

func tenant(x *scope, _ []any) (any, error) {
	if id := x.d.expressions().at.subscription; x.d.world != nil && id != "" {
		sub, err := x.d.world.Resource("/subscriptions/"+id, "")
		if err != nil {
			return nil, err
		}
		out := &Object{}
		out.set("tenantId", sub.Get("tenantId"), 0)
		return out, nil
	}
	return partlyKnown("the tenant", "tenantId", "{tenant}"), nil
}

func thisDeployment(x *scope, _ []any) (any, error) {
	d := x.d.expressions()
	if d.world != nil {
		properties, out := &Object{}, &Object{}
		properties.set("template", d.template, 0)
		properties.set("mode", "Incremental", 0)
		properties.set("provisioningState", "Accepted", 0)
		out.set("name", d.name, 0)
		if d.at.group == "" && d.options.Location != "" {
			out.set("location", d.options.Location, 0)
		}
		out.set("properties", properties, 0)
		return out, nil
	}
	return partlyKnown("the deployment", "name", cmp.Or(d.name, "{deployment}"), "location",
		cmp.Or(d.options.Location, "{location}")), nil
}

func deployer(x *scope, _ []any) (any, error) {
	if x.d.options.Deployer == nil {
		return &Unknown{Why: "who deploys it"}, nil
	}
	return x.d.options.Deployer, nil
}
