package generate

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/function"
	"github.com/zclconf/go-cty/cty/function/stdlib"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/build"
)

// uuidv5 is Terraform's function.
var uuidv5 = function.New(&function.Spec{
	Params: []function.Parameter{{Name: "namespace", Type: cty.String},
		{Name: "name", Type: cty.String}},
	Type: function.StaticReturnType(cty.String),
	Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
		namespace, err := uuid.Parse(args[0].AsString())
		return cty.StringVal(uuid.NewSHA1(namespace, []byte(args[1].AsString())).String()), err
	},
})

// terraformReader evaluates Terraform configuration as an apply would, as far as the generated code
// needs.
type terraformReader struct {
	t         *testing.T
	cluster   build.Cluster
	context   *hcl.EvalContext
	resources map[string]*terraformResource
	order     []string
	// network is the subscription of the provider for the existing network.
	network string
}

// terraformResource is a resource with its arguments. Arguments that the table of azurerm does not
// read are left over, and fail the test.
type terraformResource struct {
	t          *testing.T
	kind, name string
	id         arm.ID
	after      []string
	nested     []terraformArguments
	elsewhere  bool // by the provider for the existing network
	terraformArguments
}

type terraformArguments struct {
	values map[string]any
	blocks map[string][]terraformArguments
}

// readTerraform evaluates a configuration with the defaults of its variables.
func readTerraform(t *testing.T, c build.Cluster, files []Output) *terraformReader {
	t.Helper()
	r := &terraformReader{t: t, cluster: c, resources: map[string]*terraformResource{},
		context: &hcl.EvalContext{
			Functions: map[string]function.Function{"lower": stdlib.LowerFunc,
				"substr": stdlib.SubstrFunc, "uuidv5": uuidv5},
		}}
	known := map[string]map[string]cty.Value{"var": {}, "local": {}, "data": {}}
	known["data"]["azurerm_subscription"] = cty.ObjectVal(map[string]cty.Value{
		"main": cty.ObjectVal(
			map[string]cty.Value{"id": cty.StringVal("/subscriptions/" + c.Subscription)})})
	var open []func() (done bool, failed hcl.Diagnostics)
	note := func(group, name string, expression hclsyntax.Expression) {
		open = append(open, func() (bool, hcl.Diagnostics) {
			v, failed := expression.Value(r.context)
			if !failed.HasErrors() {
				known[group][name] = v
			}
			return !failed.HasErrors(), failed
		})
	}
	config, err := parse(files)
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range config.blocks {
		switch b.Type {
		case "variable":
			if d := b.Body.Attributes["default"]; d != nil {
				note("var", b.Labels[0], d.Expr)
			} else {
				known["var"][b.Labels[0]] = cty.StringVal(given[b.Labels[0]])
			}
		case "locals":
			for name, a := range b.Body.Attributes {
				note("local", name, a.Expr)
			}
		case "provider":
			if s := b.Body.Attributes["subscription_id"]; s != nil {
				v, _ := s.Expr.Value(nil)
				r.network = v.AsString()
			}
		case "resource":
			if known[b.Labels[0]] == nil {
				known[b.Labels[0]] = map[string]cty.Value{}
			}
			open = append(open, func() (bool, hcl.Diagnostics) {
				res, failed := r.resource(b)
				if failed.HasErrors() {
					return false, failed
				}
				known[b.Labels[0]][b.Labels[1]] = r.made(res)
				return true, nil
			})
		}
	}
	for len(open) > 0 {
		before := len(open)
		var failed hcl.Diagnostics
		open = slices.DeleteFunc(open, func(try func() (bool, hcl.Diagnostics)) bool {
			r.context.Variables = map[string]cty.Value{}
			for group, values := range known {
				r.context.Variables[group] = cty.ObjectVal(values)
			}
			done, why := try()
			failed = append(failed, why...)
			return done
		})
		if len(open) == before {
			t.Fatal(failed)
		}
	}
	return r
}

// given are the values of variables without a default.
var given = map[string]string{
	"image": "registry.example.com/routekeeper:1.0", "event_secret": "0123456789abcdef",
}

// resource evaluates a resource.
func (r *terraformReader) resource(b *hclsyntax.Block) (*terraformResource, hcl.Diagnostics) {
	res := &terraformResource{t: r.t, kind: b.Labels[0], name: b.Labels[1],
		elsewhere: b.Body.Attributes["provider"] != nil}
	var failed hcl.Diagnostics
	if res.terraformArguments, failed = r.arguments(b.Body, &res.nested); failed.HasErrors() {
		return nil, failed
	}
	_ = hclsyntax.VisitAll(b.Body, func(n hclsyntax.Node) hcl.Diagnostics {
		if e, is := n.(*hclsyntax.ScopeTraversalExpr); is && len(e.Traversal) > 1 {
			if name, is := e.Traversal[1].(hcl.TraverseAttr); is {
				res.after = append(res.after, e.Traversal.RootName()+"."+name.Name)
			}
		}
		return nil
	})
	r.resources[res.kind+"."+res.name] = res
	r.order = append(r.order, res.kind+"."+res.name)
	return res, nil
}

func (r *terraformReader) arguments(body *hclsyntax.Body,
	nested *[]terraformArguments) (terraformArguments, hcl.Diagnostics) {
	out := terraformArguments{map[string]any{}, map[string][]terraformArguments{}}
	for name, a := range body.Attributes {
		if name == "depends_on" || name == "provider" {
			continue
		}
		v, failed := a.Expr.Value(r.context)
		if failed.HasErrors() {
			return out, failed
		}
		out.values[name] = plainValue(v)
	}
	for _, b := range body.Blocks {
		if b.Type == "lifecycle" {
			continue
		}
		inner, failed := r.arguments(b.Body, nested)
		if failed.HasErrors() {
			return out, failed
		}
		*nested = append(*nested, inner)
		out.blocks[b.Type] = append(out.blocks[b.Type], inner)
	}
	return out, nil
}

// plainValue is a value as JSON.
func plainValue(v cty.Value) any {
	switch {
	case v.Type() == cty.String:
		return v.AsString()
	case v.Type() == cty.Bool:
		return v.True()
	case v.Type() == cty.Number:
		f, _ := v.AsBigFloat().Float64()
		return f
	case v.Type().IsObjectType() || v.Type().IsMapType():
		out := object{}
		for name, item := range v.AsValueMap() {
			out[name] = plainValue(item)
		}
		return out
	}
	out := []any{}
	for _, item := range v.AsValueSlice() {
		out = append(out, plainValue(item))
	}
	return out
}

// made is what others can refer to: the arguments of a resource, and the values that Azure gives
// it.
func (r *terraformReader) made(res *terraformResource) cty.Value {
	res.id = r.idOf(res)
	out := map[string]cty.Value{"id": cty.StringVal(string(res.id))}
	for name, v := range res.values {
		if s, is := v.(string); is {
			out[name] = cty.StringVal(s)
		}
	}
	addon := cty.ObjectVal(map[string]cty.Value{"object_id": cty.StringVal(addonPrincipal)})
	switch res.kind {
	case "azurerm_user_assigned_identity":
		out["client_id"] = cty.StringVal(keeperClient)
		out["principal_id"] = cty.StringVal(map[bool]string{true: clusterPrincipal,
			false: keeperPrincipal}[res.name == "cluster"])
	case "azurerm_role_definition":
		out["role_definition_resource_id"] = cty.StringVal(string(res.id))
	case "azurerm_kubernetes_cluster":
		out["oidc_issuer_url"] = cty.StringVal(issuer)
		out["ingress_application_gateway"] = cty.TupleVal([]cty.Value{
			cty.ObjectVal(map[string]cty.Value{
				"ingress_application_gateway_identity": cty.TupleVal([]cty.Value{addon})})})
	case "azapi_resource":
		profile := cty.ObjectVal(map[string]cty.Value{
			"identity": cty.ObjectVal(map[string]cty.Value{
				"objectId": cty.StringVal(addonPrincipal)})})
		out["output"] = cty.ObjectVal(map[string]cty.Value{
			"properties": cty.ObjectVal(map[string]cty.Value{
				"addonProfiles": cty.ObjectVal(map[string]cty.Value{
					"ingressApplicationGateway": profile})})})
	}
	return cty.ObjectVal(out)
}

// idOf is a resource's ID in Azure.
func (r *terraformReader) idOf(res *terraformResource) arm.ID {
	group := func(kind string) arm.ID {
		return arm.ResourceID(r.cluster.Subscription, fmt.Sprint(res.values["resource_group_name"]),
			kind,
			fmt.Sprint(res.values["name"]))
	}
	named := func(of string) string { return fmt.Sprint(res.values[of]) }
	switch res.kind {
	case "azurerm_resource_group":
		return arm.GroupID(r.cluster.Subscription, named("name"))
	case "azurerm_subnet":
		subscription := r.cluster.Subscription
		if res.elsewhere {
			subscription = r.network
		}
		return arm.ResourceID(subscription, named("resource_group_name"), arm.TypeVNet,
			named("virtual_network_name")).Child("subnets", named("name"))
	case "azurerm_route":
		return arm.ResourceID(r.cluster.Subscription, named("resource_group_name"),
			arm.TypeRouteTable,
			named("route_table_name")).Child("routes", named("name"))
	case "azurerm_role_definition":
		return arm.ID("/subscriptions/" + r.cluster.Subscription + "/providers/" +
			arm.TypeRoleDefinition + "/" +
			named("role_definition_id"))
	case "azurerm_role_assignment":
		return arm.ID(named("scope") + "/providers/" + arm.TypeRoleAssignment + "/" + named("name"))
	case "azapi_resource":
		kind, _, _ := strings.Cut(named("type"), "@")
		return arm.ID(named("parent_id") + "/providers/" + kind + "/" + named("name"))
	case "azurerm_federated_identity_credential":
		parent := named("user_assigned_identity_id")
		if res.values["user_assigned_identity_id"] == nil {
			parent = named("parent_id")
		}
		return arm.ID(parent).Child("federatedIdentityCredentials", named("name"))
	case "azurerm_subnet_route_table_association":
		return arm.ID(named("subnet_id"))
	case "azurerm_kubernetes_cluster_node_pool":
		return arm.ID(named("kubernetes_cluster_id")).Child("agentPools", named("name"))
	}
	for kind, azure := range map[string]string{
		"azurerm_virtual_network": arm.TypeVNet, "azurerm_route_table": arm.TypeRouteTable,
		"azurerm_user_assigned_identity": arm.TypeIdentity, "azurerm_public_ip": arm.TypePublicIP,
		"azurerm_application_gateway":       arm.TypeGateway,
		"azurerm_kubernetes_cluster":        arm.TypeCluster,
		"azurerm_container_app_environment": typeEnvironment,
		"azurerm_container_app":             typeContainerApp,
	} {
		if kind == res.kind {
			return group(azure)
		}
	}
	return "" // of other providers
}

// take returns an argument, and removes it from what is left over. nil: it is not written.
func (a terraformArguments) take(name string) any {
	v := a.values[name]
	delete(a.values, name)
	return v
}

// block returns a block that is written at most once.
func (a terraformArguments) block(name string) terraformArguments {
	list := a.blocks[name]
	delete(a.blocks, name)
	if len(list) == 0 {
		return terraformArguments{}
	}
	return list[0]
}

// all returns the blocks with a name.
func (a terraformArguments) all(name string) []terraformArguments {
	list := a.blocks[name]
	delete(a.blocks, name)
	return list
}

// left are the arguments and blocks that were not read.
func (a terraformArguments) left() []string {
	return append(slices.Sorted(maps.Keys(a.values)), slices.Sorted(maps.Keys(a.blocks))...)
}
