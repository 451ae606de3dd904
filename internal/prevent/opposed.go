package prevent

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/inventory"
	"routekeeper.dev/routekeeper/internal/policy"
)

// Opposed is what an assigned policy does to a write: of a subnet with all that it must have, of
// its network, or of a route table that is repaired. The policy refuses or changes the write.
type Opposed struct {
	Policy   inventory.AssignedPolicy
	Resource arm.ID
	Effect   string // in lower case
	How      string
	// Perhaps is set if this cannot be evaluated, or depends on what exists.
	Perhaps bool
}

// Opposing returns what the assigned policies do to subnets with their needs, to their networks,
// and to tables as they are.
func Opposing(s *inventory.Snapshot, needs []Need, tables []arm.ID) (all []Opposed) {
	var requests []policy.Request
	repaired := map[string]map[inventory.Property]arm.ID{}
	var subnets []arm.ID
	for _, n := range needs {
		if repaired[n.Subnet.Key()] == nil {
			repaired[n.Subnet.Key()] = map[inventory.Property]arm.ID{}
		}
		repaired[n.Subnet.Key()][n.Property] = n.Value
		subnets = append(subnets, n.Subnet)
	}
	add := func(kind string, id arm.ID, raw []byte) {
		var body policy.Object
		if json.Unmarshal(raw, &body) == nil {
			requests = append(requests, policy.Request{Type: kind, ID: id, Body: body})
		}
	}
	for _, id := range inventory.SortIDs(subnets) {
		if subnet := s.Subnet(id); subnet != nil {
			if raw, err := inventory.SetProperties(subnet.Raw, repaired[id.Key()]); err == nil {
				add(arm.TypeSubnet, id, raw)
			}
		}
	}
	for _, id := range (Wanted{Needs: needs}).Networks() {
		if vnet := s.VNets[id.Key()]; vnet != nil {
			add(arm.TypeVNet, id, vnet.Raw)
			restore(requests[len(requests)-1], repaired)
		}
	}
	for _, id := range inventory.SortIDs(tables) {
		if table := s.Table(id); table != nil {
			add(arm.TypeRouteTable, id, table.Raw)
		}
	}
	for _, p := range s.Policies {
		for _, r := range requests {
			if !p.AppliesTo(r.ID) {
				continue
			}
			if o, opposes := oppose(p, r, repaired); opposes {
				all = append(all, o)
			}
		}
	}
	return all
}

// restore gives the subnets of a network's document what they must have.
func restore(network policy.Request, repaired map[string]map[inventory.Property]arm.ID) {
	properties, _ := network.Body["properties"].(policy.Object)
	subnets, _ := properties["subnets"].([]any)
	for _, item := range subnets {
		subnet, _ := item.(policy.Object)
		name, _ := subnet["name"].(string)
		inner, _ := subnet["properties"].(policy.Object)
		for property, value := range repaired[network.ID.Child("subnets", name).Key()] {
			if inner != nil {
				inner[string(property)] = arm.Link(value)
			}
		}
	}
}

// ruleOf returns the rule of an assigned policy.
func ruleOf(p inventory.AssignedPolicy) policy.Rule {
	condition, _ := p.Rule["if"].(policy.Object)
	then, _ := p.Rule["then"].(policy.Object)
	return policy.Rule{Mode: p.Mode, If: condition, Then: then, Parameters: p.Parameters,
		Defaults: p.Defaults}
}

func oppose(p inventory.AssignedPolicy, r policy.Request,
	repaired map[string]map[inventory.Property]arm.ID) (o Opposed, opposes bool) {
	rule := ruleOf(p)
	o = Opposed{Policy: p, Resource: r.ID, Effect: rule.Effect()}
	holds := policy.No
	if rule.Applies(r.Type) {
		holds = rule.Holds(r)
	}
	o.Perhaps = holds == policy.Unknown
	switch o.Effect {
	case "deny":
		o.How = "refuses each write of it, with all that it must have"
		return o, holds == policy.Yes || o.Perhaps && names(rule.If)
	case "modify", "append":
		o.How = changes(rule, r, repaired)
		return o, o.How != "" && holds != policy.No
	case "deployifnotexists":
		for _, property := range p.Deploys {
			if needed(property, r, repaired) {
				o.Perhaps = true // its template and what must exist are not evaluated
				o.How = fmt.Sprintf("deploys a template that names a %s", property.Name())
				return o, holds != policy.No
			}
		}
	}
	return o, false
}

// names reports whether a condition names a property that can be guarded.
func names(condition policy.Object) bool {
	text, _ := json.Marshal(condition)
	return slices.ContainsFunc(inventory.Properties, func(property inventory.Property) bool {
		return strings.Contains(strings.ToLower(string(text)), strings.ToLower(string(property)))
	})
}

// needed reports whether a subnet of a request must have a property.
func needed(property inventory.Property, r policy.Request,
	repaired map[string]map[inventory.Property]arm.ID) bool {
	for key, values := range repaired {
		if values[property] != "" && (r.ID.Key() == key || strings.HasPrefix(key, r.ID.Key()+"/")) {
			return true
		}
	}
	return false
}

// changes says what modify or append makes of a property that a subnet of the request must have; ""
// if it changes none. "add" leaves a value that is there.
func changes(rule policy.Rule, r policy.Request,
	repaired map[string]map[inventory.Property]arm.ID) string {
	operations, _ := rule.Then["details"].([]any) // of append
	if details, ok := rule.Then["details"].(policy.Object); ok {
		operations, _ = details["operations"].([]any)
	}
	for _, item := range operations {
		operation, _ := item.(policy.Object)
		field, _ := operation["field"].(string)
		verb, _ := operation["operation"].(string)
		name := strings.ToLower(strings.TrimSuffix(field, ".id"))
		for _, property := range inventory.Properties {
			own := strings.ToLower(arm.TypeSubnet + "/" + string(property))
			inNetwork := strings.ToLower(network + "." + string(property))
			if name != own && name != inNetwork || strings.EqualFold(verb, "add") ||
				!needed(property, r, repaired) {
				continue
			}
			value, known := rule.Value(operation["value"])
			if object, ok := value.(policy.Object); ok {
				value = object["id"]
			}
			text, _ := value.(string)
			same := known && text != ""
			for _, values := range repaired {
				same = same && (values[property] == "" || values[property].Equal(arm.ID(text)))
			}
			switch {
			case same:
			case strings.EqualFold(verb, "remove"):
				return "takes away the " + property.Name()
			case text == "" || !known:
				return "sets the " + property.Name()
			default:
				return fmt.Sprintf("sets the %s to %s", property.Name(), text)
			}
		}
	}
	return ""
}
