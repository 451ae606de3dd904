package emulator

import (
	"fmt"
	"net/http"
	"strings"
)

// defaultRules are in every network security group, behind all others.
var defaultRules = []struct {
	name, direction, access string
	priority                int
	from, to                string
	description             string
}{
	{"AllowVnetInBound", "Inbound", "Allow", 65000, "VirtualNetwork", "VirtualNetwork",
		"Allow inbound traffic from all VMs in VNET"},
	{"AllowAzureLoadBalancerInBound", "Inbound", "Allow", 65001, "AzureLoadBalancer", "*",
		"Allow inbound traffic from azure load balancer"},
	{"DenyAllInBound", "Inbound", "Deny", 65500, "*", "*", "Deny all inbound traffic"},
	{"AllowVnetOutBound", "Outbound", "Allow", 65000, "VirtualNetwork", "VirtualNetwork",
		"Allow outbound traffic from all VMs to all VMs in VNET"},
	{"AllowInternetOutBound", "Outbound", "Allow", 65001, "*", "Internet",
		"Allow outbound traffic from all VMs to Internet"},
	{"DenyAllOutBound", "Outbound", "Deny", 65500, "*", "*", "Deny all outbound traffic"},
}

// settleSecurityGroup checks the rules of a network security group.
func (s *network) settleSecurityGroup(c *call, r, old *resource) *failure {
	keepGUID(r, old)
	properties := objectAt(r.body, "properties")
	delete(properties, "defaultSecurityRules")
	if f := checkList(properties, "securityRules"); f != nil {
		return f
	}
	rules := listAt(properties, "securityRules")
	names, places := map[string]bool{}, map[string]string{}
	stored := make([]any, 0, len(rules))
	for _, rule := range rules {
		name := text(rule, "name")
		p := objectAt(rule, "properties")
		if name == "" || p == nil || text(p, "direction") == "" || text(p, "access") == "" ||
			text(p, "protocol") == "" {
			return fail(http.StatusBadRequest, "InvalidRequestFormat", "Cannot parse the "+
				"request: security rule %q of %s needs a name, direction, access and protocol.",
				name, r.id.Name())
		}
		for _, readOnly := range []string{"id", "etag", "type"} {
			delete(rule, readOnly)
		}
		delete(p, "provisioningState")
		var priority int
		if _, err := fmt.Sscan(fmt.Sprint(p["priority"]), &priority); err != nil ||
			priority < 100 || priority > 4096 {
			return fail(http.StatusBadRequest, "SecurityRuleInvalidPriority",
				"Security rule has invalid Priority. Value provided: %v Allowed range 100-4096.",
				p["priority"])
		}
		if names[strings.ToLower(name)] {
			return fail(http.StatusBadRequest, "InvalidRequestFormat",
				"Cannot parse the request: there are two security rules named %s.", name)
		}
		names[strings.ToLower(name)] = true
		place := fmt.Sprint(strings.ToLower(text(p, "direction")), priority)
		if other, taken := places[place]; taken {
			// terraform-provider-azurerm#11137
			return fail(http.StatusBadRequest, "SecurityRuleConflict", "Security rule %s "+
				"conflicts with rule %s. Rules cannot have the same Priority and Direction.", name,
				other)
		}
		places[place] = name
		stored = append(stored, rule)
	}
	properties["securityRules"] = stored
	return nil
}

func (s *network) showSecurityGroup(r *resource, doc object, version string) {
	rules := []any{}
	for _, d := range defaultRules {
		rules = append(rules, object{"name": d.name, "properties": object{
			"description": d.description,
			"protocol":    "*", "sourcePortRange": "*", "destinationPortRange": "*",
			"sourceAddressPrefix": d.from, "destinationAddressPrefix": d.to,
			"access": d.access, "priority": d.priority, "direction": d.direction,
		}})
	}
	objectAt(doc, "properties")["defaultSecurityRules"] = rules
}
