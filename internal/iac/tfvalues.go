package iac

import (
	"encoding/json"
	"net/netip"
	"reflect"
	"strings"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/inventory"
)

// The kinds of Terraform resources that matter.
const (
	tfVNet        = "azurerm_virtual_network"
	tfSubnet      = "azurerm_subnet"
	tfAssociation = "azurerm_subnet_route_table_association"
	tfTable       = "azurerm_route_table"
	tfRoute       = "azurerm_route"
	tfCluster     = "azurerm_kubernetes_cluster"
	tfPool        = "azurerm_kubernetes_cluster_node_pool"
	tfGateway     = "azurerm_application_gateway"
	tfAzapi       = "azapi_resource"
	tfAzapiUpdate = "azapi_update_resource"
	tfAzapiAction = "azapi_resource_action"
	tfDeployment  = "azurerm_resource_group_template_deployment"
	tfRole        = "azurerm_role_assignment"

	tfNAT              = "azurerm_nat_gateway"
	tfGroup            = "azurerm_network_security_group"
	tfNATAssociation   = "azurerm_subnet_nat_gateway_association"
	tfGroupAssociation = "azurerm_subnet_network_security_group_association"
)

var kinds = map[string]bool{
	tfVNet: true, tfSubnet: true, tfAssociation: true, tfTable: true, tfRoute: true,
	tfCluster: true, tfPool: true, tfGateway: true,
	tfAzapi: true, tfAzapiUpdate: true, tfAzapiAction: true, tfDeployment: true,
	tfRole: true, tfNAT: true, tfGroup: true, tfNATAssociation: true, tfGroupAssociation: true,
}

// tfValues are the attributes that matter, of all these kinds. Sources: the schemas of the azurerm
// provider, 2.0 to 5.x, and of azapi, 1.x and 2.x.
type tfValues struct {
	ID            arm.ID `json:"id"`
	Name          string `json:"name"`
	ResourceGroup string `json:"resource_group_name"`

	// Of a virtual network: its inline blocks. Their attributes show the provider's version.
	Subnet []map[string]any `json:"subnet"`

	// Of a subnet and of an association. Nil: the attribute does not exist.
	SubnetID  arm.ID          `json:"subnet_id"`
	Table     *string         `json:"route_table_id"`
	WOVersion json.RawMessage `json:"route_table_id_wo_version"`
	// Of associations with something else.
	NATGateway    arm.ID `json:"nat_gateway_id"`
	SecurityGroup arm.ID `json:"network_security_group_id"`

	// Of a role assignment.
	Scope arm.ID `json:"scope"`
	// Of a route table: the routes, and the subnets that have it.
	Route   []tfRouteValues `json:"route"`
	Subnets []arm.ID        `json:"subnets"`
	// Of a route, with its name above.
	TableName string `json:"route_table_name"`
	tfRouteValues

	// Of subnets, for the resulting network.
	Prefixes   []string `json:"address_prefixes"`
	Delegation []struct {
		Service []struct {
			Name string `json:"name"`
		} `json:"service_delegation"`
	} `json:"delegation"`

	// Of a cluster, a pool and a gateway.
	Profile     []tfProfile     `json:"network_profile"`
	DefaultPool []tfDefaultPool `json:"default_node_pool"`
	NodeGroup   string          `json:"node_resource_group"`
	Version     string          `json:"kubernetes_version"`
	Identity    []struct {
		Type string `json:"type"`
	} `json:"identity"`
	Count      int           `json:"node_count"`
	PoolSubnet arm.ID        `json:"vnet_subnet_id"`
	ClusterID  arm.ID        `json:"kubernetes_cluster_id"`
	GatewayIPs []tfGatewayIP `json:"gateway_ip_configuration"`

	// Of azapi: the type with its api-version; the body, which is text before azapi 2.0.
	AzapiType  string          `json:"type"`
	ParentID   arm.ID          `json:"parent_id"`
	ResourceID arm.ID          `json:"resource_id"`
	Body       json.RawMessage `json:"body"`
	// Of an azapi action: "" for the resource itself.
	Action string `json:"action"`
	Method string `json:"method"`
}

type tfProfile struct {
	Plugin      string `json:"network_plugin"`
	Mode        string `json:"network_plugin_mode"`
	PodCIDR     string `json:"pod_cidr"`
	ServiceCIDR string `json:"service_cidr"`
	Outbound    string `json:"outbound_type"`
	Policy      string `json:"network_policy"`
}

type tfDefaultPool struct {
	Name     string `json:"name"`
	SubnetID arm.ID `json:"vnet_subnet_id"`
	Count    int    `json:"node_count"`
}

type tfGatewayIP struct {
	SubnetID arm.ID `json:"subnet_id"`
}

// tfRouteValues are the values of a route, inline or separate.
type tfRouteValues struct {
	Name    string `json:"name"`
	Prefix  string `json:"address_prefix"`
	HopType string `json:"next_hop_type"`
	Hop     string `json:"next_hop_in_ip_address"`
}

func (v *tfValues) orEmpty() *tfValues {
	if v == nil {
		return &tfValues{}
	}
	return v
}

// table returns the subnet's table; null and "" are equal.
func (v *tfValues) table() arm.ID {
	if v.Table == nil {
		return ""
	}
	return arm.ID(*v.Table)
}

// associations are the kinds that give a subnet a property.
var associations = map[string]inventory.Property{tfAssociation: inventory.PropertyTable,
	tfNATAssociation: inventory.PropertyNAT, tfGroupAssociation: inventory.PropertyGroup}

// associated are the kinds of resources that associations give to subnets, and the attributes of an
// association that name them.
var associated = map[inventory.Property]struct{ kind, attribute string }{
	inventory.PropertyTable: {tfTable, "route_table_id"},
	inventory.PropertyNAT:   {tfNAT, "nat_gateway_id"},
	inventory.PropertyGroup: {tfGroup, "network_security_group_id"},
}

// gives returns what an association gives.
func (v *tfValues) gives(p inventory.Property) arm.ID {
	return map[inventory.Property]arm.ID{inventory.PropertyTable: v.table(),
		inventory.PropertyNAT: v.NATGateway, inventory.PropertyGroup: v.SecurityGroup}[p]
}

// inline is a subnet block of a virtual network.
type inline map[string]any

func (b inline) text(field string) string {
	s, _ := b[field].(string)
	return s
}

func (b inline) name() string  { return b.text("name") }
func (b inline) table() arm.ID { return arm.ID(b.text("route_table_id")) }

// inlineAttributes name the properties that a block writes. Another property stays as it is: the
// provider reads the subnet first.
var inlineAttributes = map[inventory.Property]string{
	inventory.PropertyTable: "route_table_id", inventory.PropertyGroup: "security_group"}

func (b inline) has(p inventory.Property) arm.ID { return arm.ID(b.text(inlineAttributes[p])) }

// block finds the inline block of a subnet by its name.
func block(blocks []map[string]any, name string) (inline, int) {
	for i, b := range blocks {
		if strings.EqualFold(inline(b).name(), name) {
			return b, i
		}
	}
	return nil, -1
}

// rewrites reports whether the provider sees a difference between the blocks before and after, and
// so writes them: to the provider null, "", [] and missing are equal.
func rewrites(before, after []map[string]any) bool {
	if len(before) != len(after) {
		return true
	}
	for _, b := range before {
		other, _ := block(after, inline(b).name())
		if other == nil || !reflect.DeepEqual(substance(b), substance(map[string]any(other))) {
			return true
		}
	}
	return false
}

// substance returns a value without empty parts and without the IDs that Azure gives.
func substance(v any) any {
	switch v := v.(type) {
	case map[string]any:
		out := map[string]any{}
		for key, value := range v {
			if value = substance(value); value != nil && key != "id" {
				out[key] = value
			}
		}
		if len(out) > 0 {
			return out
		}
	case []any:
		out := []any{}
		for _, value := range v {
			if value = substance(value); value != nil {
				out = append(out, value)
			}
		}
		if len(out) > 0 {
			return out
		}
	case string:
		if v != "" {
			return v
		}
	case nil:
	default:
		return v
	}
	return nil
}

func (r tfRouteValues) route() inventory.Route {
	prefix, _ := netip.ParsePrefix(r.Prefix) // a service tag has none
	hop, _ := netip.ParseAddr(r.Hop)
	return inventory.Route{Name: r.Name, Prefix: prefix, HopType: r.HopType, Hop: hop}
}
