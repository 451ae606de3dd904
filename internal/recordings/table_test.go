package recordings

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// core are the fields that clients of routes, networks and clusters use, by row; other rows use all
// fields.
var core = map[string]*regexp.Regexp{}

func init() {
	for row, fields := range map[string]string{
		"route tables": `properties\.(routes|subnets|disableBgp|provisioningState)|location|name|` +
			`id`,
		"subnets": `properties\.(addressPrefix|routeTable|networkSecurityGroup|natGateway|` +
			`delegations(\[\])?$|delegations\[\]\.properties\.serviceName|` +
			`serviceEndpoint|ipConfigurations|privateEndpoints|provisioningState|` +
			`privateEndpointNetworkPolicies)`,
		"virtual networks": `properties\.(addressSpace|provisioningState|subnets(\[\])?$|` +
			`subnets\[\]\.properties\.(addressPrefix|routeTable|networkSecurityGroup|` +
			`natGateway|ipConfigurations|provisioningState|privateEndpointNetworkPolicies)|` +
			`virtualNetworkPeerings(\[\])?$|virtualNetworkPeerings\[\]\.properties\.` +
			`(peering|remote(Address|VirtualNetwork$|VirtualNetworkAddress)|allow|use))`,
		"peerings": `properties\.(peeringState|peeringSyncLevel|remoteAddressSpace|` +
			`remoteVirtualNetwork$|remoteVirtualNetworkAddressSpace|allow|use|provisioningState|` +
			`doNotVerify)`,
		"network interfaces": `properties\.(ipConfigurations(\[\])?$|` +
			`ipConfigurations\[\]\.properties\.(privateIP|subnet|publicIP|primary|` +
			`provisioningState)|` +
			`enableIPForwarding|networkSecurityGroup|virtualMachine|provisioningState|primary)`,
		"NIC effective*": `.*(addressPrefix|nextHop|state|source|value\[\])$`,
		"network security groups": `properties\.(subnets|networkInterfaces|provisioningState|` +
			`securityRules(\[\])?$|(default)?[sS]ecurityRules\[\]\.properties\.` +
			`(access|direction|priority|protocol|sourceAddressPrefix$|destinationAddressPrefix$|` +
			`sourcePortRange$|destinationPortRange$))`,
		"security rules": `properties\.(access|direction|priority|protocol|` +
			`sourceAddressPrefix$|destinationAddressPrefix$|sourcePortRange$|` +
			`destinationPortRange$|provisioningState)`,
		"public IP addresses": `properties\.(ipAddress|ipConfiguration|publicIPAllocationMethod|` +
			`publicIPAddressVersion|provisioningState|natGateway)|sku\.name`,
		"NAT gateways": `properties\.(subnets|publicIp|provisioningState)|sku\.name`,
		"application gateways": `properties\.(provisioningState|operationalState|` +
			`gatewayIPConfigurations(\[\])?$|gatewayIPConfigurations\[\]\.properties|` +
			`frontendIPConfigurations(\[\])?$|frontendIPConfigurations\[\]\.properties\.(subnet|` +
			`publicIP|privateIP)|sku|backendAddressPools(\[\])?$|` +
			`backendAddressPools\[\]\.properties\.backendAddresses)`,
		"AKS clusters": `properties\.(provisioningState|powerState|nodeResourceGroup|fqdn|` +
			`networkProfile\.(networkPlugin|networkPluginMode|podCidr|serviceCidr|` +
			`dnsServiceIP|outboundType|networkPolicy|networkDataplane|loadBalancerSku|` +
			`loadBalancerProfile)|agentPoolProfiles(\[\])?$|agentPoolProfiles\[\]\.` +
			`(name|count|maxPods|vnetSubnetID|podSubnetID|provisioningState|powerState|` +
			`upgradeSettings|type|mode|enableAutoScaling|minCount|maxCount|osType|` +
			`orchestratorVersion)|servicePrincipalProfile|identityProfile|addonProfiles|` +
			`maxAgentPools)|identity`,
		"AKS agent pools": `properties\.(count|maxPods|vnetSubnetID|podSubnetID|` +
			`provisioningState|powerState|upgradeSettings|type|mode|enableAutoScaling|minCount|` +
			`maxCount|osType|orchestratorVersion|nodeTaints)`,
		"scale sets": `properties\.(provisioningState|uniqueId)|sku\.(capacity|name)|` +
			`identity`,
		"managed identities": `properties|location|name`,
	} {
		core[row] = regexp.MustCompile(`^(?:` + fields + `)`)
	}
}

// isCore reports whether all fields that clients use agree.
func isCore(out *result) bool {
	acted := core[out.row]
	return !slices.ContainsFunc(out.diff.all(), func(d difference) bool {
		return acted == nil || acted.MatchString(strings.TrimPrefix(d.path, "value[]."))
	})
}

// columns are the measured aspects, in the order of the table.
var columns = []string{"status", "code", "message", "headers", "end", "core", "body", "all"}

// figures are the shares of a row, in percent, and the number of calls.
type figures struct {
	calls int
	share map[string]float64
	of    map[string]int
}

func figuresOf(results []*result) figures {
	f := figures{share: map[string]float64{}, of: map[string]int{}}
	good := map[string]int{}
	for _, r := range results {
		if r.verdict != "ok" && r.verdict != "mismatch" {
			continue
		}
		f.calls++
		for what, is := range r.good {
			f.of[what]++
			if is {
				good[what]++
			}
		}
		f.of["all"]++
		if r.verdict == "ok" {
			good["all"]++
		}
	}
	for what, n := range f.of {
		f.share[what] = 100 * float64(good[what]) / float64(n)
	}
	return f
}

// table is the table as text, one row per line.
func table(results []*result) string {
	rows := map[string][]*result{}
	for _, r := range results {
		rows[r.row] = append(rows[r.row], r)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%-32s %6s", "", "calls")
	for _, column := range columns {
		fmt.Fprintf(&b, " %8s", column)
	}
	line := func(name string, of []*result) {
		f := figuresOf(of)
		if f.calls == 0 {
			return
		}
		fmt.Fprintf(&b, "\n%-32s %6d", name, f.calls)
		for _, column := range columns {
			if f.of[column] == 0 {
				fmt.Fprintf(&b, " %8s", "-")
			} else {
				fmt.Fprintf(&b, " %8.1f", f.share[column])
			}
		}
	}
	line("all", results)
	for _, k := range kinds {
		line(k[1], rows[k[1]])
	}
	return b.String()
}
