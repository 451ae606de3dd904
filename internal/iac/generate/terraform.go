package generate

import (
	"fmt"
	"strings"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/build"
	"routekeeper.dev/routekeeper/internal/capacity"
)

// terraform is what the templates of Terraform read.
type terraform struct {
	Blueprint
	C build.Cluster
	// Kubenet: the cluster has pod routes. Static: azurerm cannot express the cluster, so azapi is
	// used.
	Kubenet, Static bool
	// Role: the cluster has a custom role. Without it, it gets Network Contributor.
	Role    bool
	Subnets []terraformSubnet
	terraformNetwork
	// Scopes are where the cluster's identity has its role.
	Scopes         []terraformScope
	NetworkProfile []terraformArgument
	// Properties are the cluster's by azapi, ClusterAddress is the cluster.
	Properties, ClusterAddress string
	Roles                      []terraformRole
	Routes, Manifest           string
	AboutImage, Arguments      string
}

type terraformScope struct{ Symbol, Address, Purpose string }

type terraformArgument struct{ Name, Value string }

type terraformRole struct {
	KeeperRole
	Scope, Comment string
	Groups         []arm.ID
	On             []terraformScope
}

type terraformPool struct {
	Pool                  build.Pool
	NodeSubnet, PodSubnet string // PodSubnet is "" if there is none
}

func poolOf(t terraform, i int) terraformPool {
	return terraformPool{t.C.Pools[i], t.NodeSubnet, t.PodSubnet}
}

// Terraform writes the blueprint as Terraform configuration.
func (b Blueprint) Terraform() ([]Output, error) {
	s, err := b.steps()
	if err != nil {
		return nil, err
	}
	c := b.Cluster
	t := terraform{
		Blueprint: b, C: c, Kubenet: c.Blueprint == capacity.Kubenet,
		Static: c.Blueprint == capacity.PodSubnetStatic, AboutImage: aboutImage,
		ClusterAddress: "azurerm_kubernetes_cluster.main", Arguments: b.variables(),
	}
	for _, n := range s.nodes {
		t.Role = t.Role || n.kind == arm.TypeRoleDefinition
	}
	if t.Static {
		t.ClusterAddress = "azapi_resource.cluster"
	}
	t.network()
	properties := s.deployment.node("cluster").properties()
	t.profile(properties)
	address := t.addresses()
	if t.Static {
		t.Properties = address.hcl(properties)
	}
	if t.Kubenet {
		t.Routes = address.heredoc(s.config())
		t.Manifest = address.heredoc(manifest(s.config(), mark("get", "keeper", "clientId"),
			mark("param", "image")))
	}
	names := []string{"main.tf", "variables.tf", "network.tf", "cluster.tf"}
	if c.ApplicationGateway != nil {
		names = append(names, "gateway.tf")
	}
	if b.Host != "" {
		t.keeper()
		names = append(names, "keeper.tf")
	}
	return write("terraform/cluster", append(names, "outputs.tf"), t)
}

// variables returns the arguments that an apply needs.
func (b Blueprint) variables() string {
	switch b.Host {
	case HostAKS:
		return " -var image=IMAGE"
	case HostContainerApps:
		return " -var image=IMAGE -var event_secret=$(openssl rand -hex 16)"
	}
	return ""
}

// profileArguments are azurerm's names for the fields of a network profile, in its order.
var profileArguments = [][2]string{
	{"network_plugin", "networkPlugin"}, {"network_plugin_mode", "networkPluginMode"},
	{"network_policy", "networkPolicy"}, {"network_data_plane", "networkDataplane"},
	{"outbound_type", "outboundType"}, {"pod_cidr", "podCidr"}, {"service_cidr", "serviceCidr"},
	{"dns_service_ip", "dnsServiceIP"},
}

// profile fills in the network profile of a cluster's properties, in azurerm's words.
func (t *terraform) profile(properties object) {
	fields := properties["networkProfile"].(object)
	for _, a := range profileArguments {
		if value, has := fields[a[1]]; has {
			t.NetworkProfile = append(t.NetworkProfile, terraformArgument{a[0], value.(string)})
		}
	}
}

// keeper fills in the keeper's roles, and where it has them.
func (t *terraform) keeper() {
	const group, subscription = "azurerm_resource_group.main", "data.azurerm_subscription.main"
	on := func(role, symbol, id string) terraformScope {
		return terraformScope{symbol, id, "keeper-" + role + "-${lower(" + id + ")}"}
	}
	groups := t.C.Existing.LinkedGroups(t.C.GroupID())
	for _, role := range KeeperRoles() {
		r := terraformRole{KeeperRole: role, Scope: group + ".id", Comment: comment(role),
			Groups: groups}
		switch role.Name {
		case "reads":
			r.Scope, r.Groups = subscription+".id", nil
			r.On = []terraformScope{{"subscription", subscription + ".id",
				"keeper-reads-assignment"}}
		case "links":
			r.On = []terraformScope{on(role.Name, "group", group+".id")}
			for i, g := range groups {
				r.On = append(r.On, terraformScope{fmt.Sprintf("group_%d", i+1), hclString(g),
					"keeper-links-" + g.Key()})
			}
		case "subnets":
			r.On = []terraformScope{on(role.Name, "nodes", t.NodeSubnet)}
			if t.C.HasGatewayTable() {
				r.On = append(r.On, on(role.Name, "gateway", t.GatewaySubnet))
			}
		case "targets":
			if t.GatewayTableID == "" {
				continue
			}
			r.On = []terraformScope{on(role.Name, "gateway", t.GatewayTableID)}
		}
		t.Roles = append(t.Roles, r)
	}
}

// addresses writes marks as expressions of Terraform.
func (t *terraform) addresses() dialect {
	cluster := t.ClusterAddress
	ids := map[string]string{
		"nodeTable": t.NodeTableID, "gatewayTable": t.GatewayTableID,
		"nodeSubnet": t.NodeSubnet, "podSubnet": t.PodSubnet, "gatewaySubnet": t.GatewaySubnet,
		"gateway":  "azurerm_application_gateway.main.id",
		"identity": "azurerm_user_assigned_identity.cluster.id", "cluster": cluster + ".id",
	}
	return func(kind string, args []string) string {
		switch {
		case kind == "param":
			return "var." + args[0]
		case kind == "id" && ids[args[0]] != "":
			return ids[args[0]]
		case kind == "get" && args[0] == "keeper" && args[1] == "clientId":
			return "azurerm_user_assigned_identity.keeper.client_id"
		}
		panic(fmt.Sprintf("Terraform has no mark %s %q", kind, args))
	}
}

// heredoc returns the inside of a heredoc.
func (d dialect) heredoc(text lines) string {
	var out []string
	for _, line := range text[:len(text)-1] { // the last is empty: a heredoc ends with a line break
		joined := ""
		for _, p := range d.pieces(line) {
			if p.expression {
				joined += "${" + p.text + "}"
			} else {
				joined += hclLiteral(p.text)
			}
		}
		out = append(out, "    "+joined)
	}
	return strings.Join(out, "\n")
}

// hcl returns a value of a body as an expression of HCL.
func (d dialect) hcl(v any) string {
	switch v := v.(type) {
	case string:
		out := `"`
		pieces := d.pieces(v)
		for _, p := range pieces {
			if p.expression && len(pieces) == 1 {
				return p.text
			} else if p.expression {
				out += "${" + p.text + "}"
			} else {
				out += strings.Trim(hclString(p.text), `"`)
			}
		}
		return out + `"`
	case []any:
		out := "["
		for i, item := range v {
			if i > 0 {
				out += ", "
			}
			out += d.hcl(item)
		}
		return out + "]"
	case object:
		out := "{\n"
		for _, m := range ordered(v) {
			out += m.name + " = " + d.hcl(m.value) + "\n"
		}
		return out + "}"
	}
	return fmt.Sprint(v)
}
