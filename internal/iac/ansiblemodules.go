package iac

import (
	"net/netip"
	"strings"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/iac/yamltree"
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

// subnet reads azure_rm_subnet. Since azure.azcollection 1.11.0 it removes the route table that the
// subnet has if the task names none (pull request 727); that this breaks AKS was reported, and
// closed as not a bug (#890).
func (t *ansibleTask) subnet() {
	id := subnetID(t.text("subscription_id"), t.text("resource_group"),
		t.text("virtual_network_name", "virtual_network"), t.text("name"))
	if name := t.task.Get("register").String(); name != "" {
		t.registered[name] = id
	}
	w := codeWrite{by: t.by, maybe: strings.Join(t.maybe, ", and ")}
	state, table := t.arg("state"), t.arg("route_table")
	switch {
	case strings.EqualFold(state.text(), "absent"):
		w.outcome, w.how = deletes, "the task deletes it (state: absent)"
		w.fix = "remove the task, or move what is in the subnet out of it first"
	case table.missing():
		w.outcome = strips
		w.how = "the task names no route_table, and azure_rm_subnet then removes the one that " +
			"the subnet has (azure.azcollection 1.11.0 and later, ansible-collections/azure#890)"
	case table.unknown != "" && table.empty:
		w.outcome = doubts
		w.how = "it is not known whether the task names a route_table: " + table.text() +
			"; without one, azure_rm_subnet removes the one that the subnet has " +
			"(ansible-collections/azure#890)"
	default:
		w.outcome, w.table = gives, table.text()
		if table.value.Is(yamltree.Map) {
			w.table = t.eval(table.value.Get("name")).text()
		}
	}
	if w.fix == "" {
		w.fix = tableFix("the task", "route_table: NAME or ID", subnetPlace(string(id)))
	}
	if state.unknown != "" {
		t.note(t.by, true, "its state is not known: %s; absent deletes the subnet", state.text())
	}
	t.write(id, w)
}

// network reads azure_rm_virtualnetwork. Where it changes a network that exists, it sends back the
// subnets as it has read them (subnets=vnet.subnets in azure.azcollection), so
// that each keeps its table; it has no option for subnets. Ansible's own module before the
// collection, up to 2.7, sent none, which removed them (ansible/ansible#49885).
func (t *ansibleTask) network() {
	if strings.EqualFold(t.text("state"), "absent") {
		t.note(Place{Name: t.text("name"), Address: t.by.Address, File: t.by.File,
			Line: t.by.Line}, false, "the network is deleted with its subnets, which Azure "+
			"refuses while anything is in them")
	}
}

// routeTable reads azure_rm_routetable, which writes no single routes. From 1.16.0 on, it passes on
// the routes that the table has (#1142).
func (t *ansibleTask) routeTable() {
	place := Place{Name: t.text("name"), Address: t.by.Address, File: t.by.File, Line: t.by.Line}
	if strings.EqualFold(t.text("state"), "absent") {
		t.note(place, false, "the table is deleted, which Azure refuses while a subnet uses it")
		return
	}
	t.note(place, false, "if it changes the table, azure.azcollection before 1.16.0 removes all "+
		"routes of it, pod routes too (ansible-collections/azure#1142); later versions keep them")
}

// route reads azure_rm_route, which writes or deletes one route.
func (t *ansibleTask) route() {
	if !strings.EqualFold(t.text("state"), "absent") {
		return
	}
	name := t.text("name")
	prefix, _ := netip.ParsePrefix(t.text("address_prefix"))
	if !nodeName.MatchString(name) && (!prefix.IsValid() ||
		!defaultPodCIDR.Contains(prefix.Addr())) {
		return
	}
	id := arm.ID("/subscriptions/" + part(t.text("subscription_id"), "{subscription}") +
		"/resourceGroups/" + part(t.text("resource_group"), "{resource-group}") + "/providers/" +
		arm.TypeRouteTable + "/" + part(t.text("route_table_name"), "{table}"))
	how := "the task deletes the route " + name + " (state: absent)"
	if len(t.maybe) > 0 {
		how += ", provided that " + strings.Join(t.maybe, ", and ")
	}
	hop, _ := netip.ParseAddr(t.text("next_hop_ip_address"))
	t.removes(Effect{Verb: RoutesGone, By: t.by, How: how,
		What:   subnetPlace(string(id)),
		Routes: []Route{{Name: name, Prefix: prefix, Hop: hop}},
		Fix:    "remove the task: the cluster writes its routes itself"})
}

// aksNetwork is what a cluster's task says about its network.
type aksNetwork struct{ why string }

// cluster reads azure_rm_aks. It does not change a pool's subnet: the module refuses that.
func (t *ansibleTask) cluster() {
	name := t.text("name")
	if strings.EqualFold(t.text("state"), "absent") {
		how := "is destroyed (state: absent)"
		if len(t.maybe) > 0 {
			how += ", provided that " + strings.Join(t.maybe, ", and ")
		}
		t.removes(Effect{Verb: Destroyed, By: t.by, How: how,
			What: Place{Name: name, Address: t.by.Address, File: t.by.File, Line: t.by.Line},
			Fix:  "remove the task if the cluster has to stay"})
		return
	}
	profile := t.arg("network_profile")
	var plugin, outbound answer
	if profile.unknown == "" {
		plugin = t.eval(profile.value.Get("network_plugin"))
		outbound = t.eval(profile.value.Get("outbound_type"))
	}
	nodes := "nodes of the cluster " + name
	network := aksNetwork{why: nodes + " are in it (network plugin unknown)"}
	switch {
	case strings.EqualFold(plugin.text(), "kubenet"),
		// the module's default
		profile.value.Is(yamltree.Map) && profile.value.Get("network_plugin") == nil:
		network.why = "nodes of the kubenet cluster " + name + " are in it"
	case strings.EqualFold(outbound.text(), "userDefinedRouting"):
		network.why = nodes + " use its table for egress (userDefinedRouting)"
	case strings.EqualFold(plugin.text(), "azure"):
		network.why = ""
	}
	t.clusters[strings.ToLower(name)] = network
	pools := t.arg("agent_pool_profiles")
	if pools.unknown != "" {
		t.note(t.by, true, "its pools are not known (%s), so which subnets they are in is unknown",
			pools.text())
	}
	if network.why == "" {
		return
	}
	for _, pool := range pools.value.List() {
		if !t.left.step(1) {
			return
		}
		t.uses(t.eval(pool).value.Get("vnet_subnet_id"), network.why)
	}
}

// pool reads azure_rm_aksagentpool.
func (t *ansibleTask) pool() {
	subnet, cluster := t.args["vnet_subnet_id"], t.text("cluster_name")
	if subnet == nil || strings.EqualFold(t.text("state"), "absent") {
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
	if strings.EqualFold(t.text("state"), "absent") {
		return
	}
	why := "the gateway " + t.text("name") + " is in it and must reach pods"
	for _, item := range t.arg("gateway_ip_configurations").value.List() {
		if !t.left.step(1) {
			return
		}
		subnet := t.eval(t.eval(item).value.Get("subnet"))
		name := t.eval(subnet.value.Get("name")).text()
		switch {
		case subnet.value.Get("id") != nil:
			t.uses(subnet.value.Get("id"), why)
		case name != "":
			t.carrier(subnetID(t.text("subscription_id"), t.text("resource_group"),
				t.eval(subnet.value.Get("virtual_network_name")).text(), name), t.by, why)
		}
	}
}

// uses adds the subnet with an ID, or the one that another task registered: "{{ nodes.state.id }}".
func (t *ansibleTask) uses(subnet *yamltree.Value, why string) {
	if subnet.Missing() {
		return
	}
	a := t.eval(subnet)
	name := strings.TrimSuffix(strings.TrimSuffix(a.unknown, ".state.id"), ".state['id']")
	if id, is := t.registered[name]; is && name != a.unknown {
		t.carrier(id, t.by, why)
		return
	}
	if a.unknown != "" {
		t.note(t.by, true, "the subnet %s is not known, so what happens to it is unknown", a.text())
		return
	}
	t.carrier(arm.ID(a.text()), t.by, why)
}

// deployment reads azure_rm_deployment.
func (t *ansibleTask) deployment() {
	if !strings.EqualFold(t.text("state"), "absent") {
		t.note(t.by, true, "it deploys an ARM template, which is not checked here: check the "+
			"template itself")
	}
}

// resource reads azure_rm_resource, which sends a body as it is.
func (t *ansibleTask) resource() {
	where := strings.ToLower(t.text("url") + " /" + t.text("resource_type") + "/")
	method := t.text("method")
	if strings.EqualFold(t.text("state"), "absent") {
		return
	}
	if (method == "" || strings.EqualFold(method, "PUT")) &&
		(strings.Contains(where, "/virtualnetworks/") || strings.Contains(where, "/routetables/")) {
		t.note(t.by, true, "it writes a network, subnet or route table exactly as its body says, "+
			"and the body is not checked: a subnet without routeTable loses its table")
	}
}
