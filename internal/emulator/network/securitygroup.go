package network

import (
	"fmt"
	"strings"

	"routekeeper.dev/routekeeper/internal/emulator/kernel"
)

// defaultRules are in every network security group, after all others.
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
func (s *Network) settleSecurityGroup(c *kernel.Call, r, old *kernel.Resource) *kernel.Failure {
	keepGUID(r, old)
	properties := r.Properties()
	if f := kernel.CheckList(properties, "securityRules"); f != nil {
		return f
	}
	rules := kernel.ListAt(properties, "securityRules")
	names, places := map[string]bool{}, map[string]string{}
	stored := make([]any, 0, len(rules))
	for _, rule := range rules {
		name := kernel.Text(rule, "name")
		p := kernel.ObjectAt(rule, "properties")
		if name == "" || p == nil || kernel.Text(p, "direction") == "" ||
			kernel.Text(p, "access") == "" || kernel.Text(p, "protocol") == "" {
			return kernel.Unparsable("security rule %q of %s needs a name, direction, access and "+
				"protocol.", name, r.ID.Name())
		}
		dropReadOnly(rule)
		priority := kernel.NumberOf(p, "priority")
		if priority < 100 || priority > 4096 {
			return kernel.Bad("SecurityRuleInvalidPriority", "Security rule has invalid "+
				"Priority. Value provided: %v Allowed range 100-4096.", p["priority"])
		}
		if names[strings.ToLower(name)] {
			return kernel.Unparsable("there are two security rules named %s.", name)
		}
		names[strings.ToLower(name)] = true
		place := fmt.Sprint(strings.ToLower(kernel.Text(p, "direction")), priority)
		if other, taken := places[place]; taken {
			// terraform-provider-azurerm#11137
			return kernel.Bad("SecurityRuleConflict", "Security rule %s conflicts with rule %s. "+
				"Rules cannot have the same Priority and Direction.", name, other)
		}
		places[place] = name
		stored = append(stored, rule)
	}
	properties["securityRules"] = stored
	return nil
}

func showSecurityGroup(r *kernel.Resource, doc kernel.Object, version string) {
	rules := []any{}
	for _, d := range defaultRules {
		rules = append(rules, kernel.Object{"name": d.name, "properties": kernel.Object{
			"description": d.description,
			"protocol":    "*", "sourcePortRange": "*", "destinationPortRange": "*",
			"sourceAddressPrefix": d.from, "destinationAddressPrefix": d.to,
			"access": d.access, "priority": d.priority, "direction": d.direction,
		}})
	}
	kernel.ObjectAt(doc, "properties")["defaultSecurityRules"] = rules
}
