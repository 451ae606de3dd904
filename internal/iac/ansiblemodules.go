package iac

import (
	"net/netip"
	"strings"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/iac/yamltree"
	"routekeeper.dev/routekeeper/internal/inventory"
	"routekeeper.dev/routekeeper/internal/lazy"
)

// modules are the modules of azure.azcollection that matter to route tables and pods.
var modules = map[string]func(*ansibleTask){
	"azure_rm_subnet": (*ansibleTask).subnet, "azure_rm_routetable": (*ansibleTask).routeTable,
	"azure_rm_route": (*ansibleTask).route, "azure_rm_aks": (*ansibleTask).cluster,
	"azure_rm_aksagentpool": (*ansibleTask).pool,
	"azure_rm_appgateway":   (*ansibleTask).gateway,
	"azure_rm_deployment":   (*ansibleTask).deployment,
	"azure_rm_resource":     (*ansibleTask).resource,

	"azure_rm_virtualnetwork": (*ansibleTask).network,
}

// mayBeEmpty has the words by which an expression can have no value.
var mayBeEmpty = lazy.Regexp(`\b(omit|default|d|none|None|if|ternary)\b`)

// subnet reads azure_rm_subnet. Since azure.azcollection 1.11.0 it removes the subnet's route table
// if the task names none (pull request 727). A report that this breaks AKS was closed as not a bug
// (#890). It does the same with the NAT gateway, and keeps the group (azure_rm_subnet.py,
// exec_module).
func (t *ansibleTask) subnet() {
	vnet, name := t.arg("virtual_network_name", "virtual_network"), t.arg("name")
	id := subnetID(t.text("subscription_id"), t.text("resource_group"), shown(vnet), shown(name))
	if t.register != "" {
		t.registered[t.register] = id
	}
	w := t.gives(id, inventory.PropertyTable, "route_table")
	if t.absent() {
		w.outcome, w.how = deletes, "the task deletes it (state: absent)"
		w.fix = "remove the task, or move what is in the subnet out of it first"
	}
	elsewhere := ""
	if isExpression(vnet) {
		elsewhere = "; its network is an expression, which is not evaluated (" +
			strings.Trim(shown(vnet), "{}") + ")"
	}
	w.how += elsewhere
	if w.outcome != gives && t.isUnknown("the subnet", name, w.how+t.provided()) {
		return
	}
	t.write(id, inventory.PropertyTable, w)
	if t.absent() || isExpression(name) {
		return
	}
	nat := t.gives(id, inventory.PropertyNAT, "nat_gateway")
	group := t.gives(id, inventory.PropertyGroup, "security_group", "security_group_name")
	nat.how, group.how = nat.how+elsewhere, group.how+elsewhere
	t.write(id, inventory.PropertyNAT, nat)
	t.write(id, inventory.PropertyGroup, group)
}

// gives says what azure_rm_subnet does to a property of a subnet by one of its options. As in other
// formats, an expression gives a NAT gateway or a group.
func (t *ansibleTask) gives(id arm.ID, p inventory.Property, options ...string) codeWrite {
	const since = " (azure.azcollection 1.11.0 and later, ansible-collections/azure#890)"
	w := codeWrite{by: t.by, maybe: strings.Join(t.maybe, ", and "), outcome: gives,
		fix: nameFix("the task", options[0]+": NAME or ID", subnetPlace(string(id)), p)}
	v, table := t.arg(options...), p == inventory.PropertyTable
	empty := v.Is(yamltree.Scalar) && strings.TrimSpace(v.Text) == ""
	switch {
	case v.Missing() && p == inventory.PropertyGroup:
		w.outcome = keeps
	case v.Missing() || empty:
		w.outcome = strips
		w.how = "the task names no " + options[0] + ", and azure_rm_subnet then removes the one " +
			"that the subnet has" + map[bool]string{true: since}[table]
	case isExpression(v) && table && (v.Is(yamltree.Unknown) || mayBeEmpty().MatchString(v.Text)):
		w.outcome = doubts
		w.how = "it is not known whether the task names a route_table: " + shown(v) +
			" is an expression, which is not evaluated; without a route_table, azure_rm_subnet " +
			"removes the one that the subnet has (ansible-collections/azure#890)"
	case isExpression(v) && table && !t.absent():
		t.note(t.by, false, "route_table is an expression, which is not evaluated (%s): if it is "+
			"empty, the subnet loses its table (ansible-collections/azure#890)",
			strings.Trim(shown(v), "{}"))
	case isExpression(v):
	default:
		if w.table = v.String(); v.Is(yamltree.Map) {
			w.table = shown(v.Get("name"))
		}
	}
	return w
}

// network reads azure_rm_virtualnetwork. When it changes an existing network, it sends back the
// subnets as it read them (subnets=vnet.subnets in azure.azcollection), so each keeps its table. It
// has no option for subnets. Ansible's own module before the collection, up to 2.7, sent none,
// which removed them (ansible/ansible#49885).
func (t *ansibleTask) network() {
	if t.absent() {
		t.note(t.place(), false, "the network is deleted with its subnets, which Azure refuses "+
			"while anything is in them")
	}
}

// place returns the place of the task's resource.
func (t *ansibleTask) place() Place {
	return Place{Name: t.text("name"), Address: t.by.Address, File: t.by.File, Line: t.by.Line}
}

// routeTable reads azure_rm_routetable, which writes no single routes. From 1.16.0 on, it passes on
// the routes that the table has (#1142).
func (t *ansibleTask) routeTable() {
	if t.absent() {
		t.note(t.place(), false, "the table is deleted, which Azure refuses while a subnet uses it")
		return
	}
	t.note(t.place(), false, "if it changes the table, azure.azcollection before 1.16.0 removes "+
		"all routes of it, pod routes too (ansible-collections/azure#1142); later versions keep "+
		"them")
}

// route reads azure_rm_route, which writes or deletes one route.
func (t *ansibleTask) route() {
	if !t.absent() || t.unknown("name", "the route that it deletes may be a node's") {
		return
	}
	name := t.text("name")
	prefix, _ := netip.ParsePrefix(t.text("address_prefix"))
	if !nodeName().MatchString(name) &&
		(!prefix.IsValid() || !defaultPodCIDR.Contains(prefix.Addr())) {
		return
	}
	id := arm.ID("/subscriptions/" + part(t.text("subscription_id"), "{subscription}") +
		"/resourceGroups/" + part(t.text("resource_group"), "{resource-group}") + "/providers/" +
		arm.TypeRouteTable + "/" + part(t.text("route_table_name"), "{table}"))
	hop, _ := netip.ParseAddr(t.text("next_hop_ip_address"))
	t.removes(Effect{Verb: RoutesGone, By: t.by, What: subnetPlace(string(id)),
		How:    "the task deletes the route " + name + " (state: absent)" + t.provided(),
		Routes: []Route{{Name: name, Prefix: prefix, Hop: hop}}, Doubt: len(t.maybe) > 0,
		Fix: "remove the task: the cluster writes its routes itself"})
}

// aksNetwork is what a cluster's task says about its network.
type aksNetwork struct{ why string }

// cluster reads azure_rm_aks. It does not change a pool's subnet: the module refuses that.
func (t *ansibleTask) cluster() {
	name := t.text("name")
	if t.absent() {
		t.removes(Effect{Verb: Destroyed, By: t.by, What: t.place(),
			How: "is destroyed (state: absent)" + t.provided(), Doubt: len(t.maybe) > 0,
			Fix: "remove the task if the cluster has to stay"})
		return
	}
	profile := t.arg("network_profile")
	plugin, outbound := profile.Get("network_plugin"), profile.Get("outbound_type")
	kind := shown(plugin)
	switch {
	case profile.Is(yamltree.Map) && plugin == nil: // the module's default
		kind = "kubenet"
	case strings.EqualFold(kind, "kubenet"):
	case !strings.EqualFold(kind, "azure") || isExpression(outbound):
		kind = "{}"
	}
	network := aksNetwork{why: nodesNeed(name, kind, shown(outbound))}
	t.clusters[strings.ToLower(name)] = network
	if network.why != "" {
		t.each("agent_pool_profiles", func(pool *yamltree.Value) {
			t.uses(pool.Get("vnet_subnet_id"), network.why)
		})
	}
}

// each calls a function for each item of an argument. Items that are not known are noted.
func (t *ansibleTask) each(arg string, do func(*yamltree.Value)) {
	for _, item := range listOf(t.args[arg]) {
		if !t.budget.take(1) {
			return
		}
		if !t.isUnknown(arg, item, "which subnets it uses is unknown") {
			do(item)
		}
	}
}

// pool reads azure_rm_aksagentpool.
func (t *ansibleTask) pool() {
	subnet, cluster := t.args["vnet_subnet_id"], t.text("cluster_name")
	if subnet == nil || t.absent() {
		return
	}
	t.later = append(t.later, func() {
		network, there := t.clusters[strings.ToLower(cluster)]
		if !there {
			t.note(t.by, false, "the cluster %s is not in the file, so its network plugin is "+
				"unknown: name the subnet with --subnet if its pods need a route table", cluster)
		} else if network.why != "" {
			t.uses(subnet, network.why)
		}
	})
}

// gateway reads azure_rm_appgateway.
func (t *ansibleTask) gateway() {
	if t.absent() {
		return
	}
	why := "the gateway " + t.text("name") + " is in it and must reach pods"
	t.each("gateway_ip_configurations", func(item *yamltree.Value) {
		subnet := item.Get("subnet")
		name := shown(subnet.Get("name"))
		switch {
		case t.isUnknown("subnet", subnet, "what happens to it is unknown"):
		case subnet.Get("id") != nil:
			t.uses(subnet.Get("id"), why)
		case t.isUnknown("subnet", subnet.Get("name"), "what happens to it is unknown"):
		case name != "":
			t.carrier(subnetID(t.text("subscription_id"), t.text("resource_group"),
				shown(subnet.Get("virtual_network_name")), name), t.by, why)
		}
	})
}

// registeredID is the ID of the subnet that another task has written: "{{ nodes.state.id }}".
var registeredID = lazy.Regexp(`^\{\{\s*(\w+)\.state(?:\.id|\['id'\])\s*\}\}$`)

// uses adds the subnet with an ID, or the one that another task registered.
func (t *ansibleTask) uses(subnet *yamltree.Value, why string) {
	if subnet.Missing() {
		return
	}
	if by := registeredID().FindStringSubmatch(strings.TrimSpace(subnet.Text)); by != nil {
		if id, is := t.registered[by[1]]; is {
			t.carrier(id, t.by, why)
			return
		}
	}
	if !t.isUnknown("the subnet", subnet, "what happens to it is unknown") {
		t.carrier(arm.ID(subnet.String()), t.by, why)
	}
}

// deployment reads azure_rm_deployment.
func (t *ansibleTask) deployment() {
	if !t.absent() {
		t.note(t.by, true, "it deploys an ARM template, which is not checked here: check the "+
			"template itself")
	}
}

// resource reads azure_rm_resource, which sends a body as it is.
func (t *ansibleTask) resource() {
	url, kind, method := t.args["url"], t.args["resource_type"], t.args["method"]
	where := strings.ToLower(url.String() + " /" + kind.String() + "/")
	if t.absent() || method != nil && !isExpression(method) &&
		!strings.EqualFold(method.String(), "PUT") {
		return
	}
	if isExpression(url) || isExpression(kind) || strings.Contains(where, "/virtualnetworks/") ||
		strings.Contains(where, "/routetables/") {
		t.note(t.by, true, "it writes a network, subnet or route table exactly as its body says, "+
			"and the body is not checked: a subnet without routeTable loses its table")
	}
}
