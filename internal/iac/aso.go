package iac

import (
	"cmp"
	"slices"
	"strings"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/iac/yamltree"
	"routekeeper.dev/routekeeper/internal/inventory"
)

// The API groups of Azure Service Operator (ASO).
const (
	groupASONetwork = "network.azure.com"
	groupASOCluster = "containerservice.azure.com"
)

// policyAnnotation says whether ASO writes a resource at all. The values are case-sensitive. ASO
// manages a resource whose value it does not know (ASO's guide, annotations).
const policyAnnotation = "serviceoperator.azure.com/reconcile-policy"

// aso judges an object of ASO. ASO writes a resource as the object says, when the object changes
// and then every hour by default. It has no field for the subnets of a VirtualNetwork and the
// routes of a RouteTable. It reads both first and passes them on, since ASO#1944 reported that an
// update of a network removed its subnets (v2.0.0-alpha.2). So only a subnet's own object can
// remove the subnet's table.
func (m *manifests) aso(o *kubeObject) {
	switch o.kind {
	case "VirtualNetworksSubnet":
		m.asoSubnet(o)
	case "VirtualNetwork":
		if o.spec.Get("subnets") != nil {
			m.note(o.by, false, "a VirtualNetwork of Azure Service Operator has no subnets: write "+
				"each as a VirtualNetworksSubnet, with its routeTable")
		}
	case "RouteTable":
		if o.spec.Get("routes") != nil {
			m.note(o.by, false, "a RouteTable of Azure Service Operator has no routes: write each "+
				"as a RouteTablesRoute; pod routes in the table stay")
		}
	case "ManagedCluster":
		why := asoNeeds(o)
		for _, pool := range o.spec.Get("agentPoolProfiles").List() {
			m.asoUses(o, pool.Get("vnetSubnetReference"), why)
		}
	case "ManagedClustersAgentPool":
		m.asoPool(o)
	case "ApplicationGateway":
		for _, c := range o.spec.Get("gatewayIPConfigurations").List() {
			m.asoUses(o, c.At("subnet", "reference"), "the gateway "+azureName(o)+
				" is in it and must reach pods")
		}
	}
}

// azureName returns an object's name in Azure.
func azureName(o *kubeObject) string {
	return cmp.Or(manifestText(o.spec.Get("azureName")), o.name)
}

func (m *manifests) asoSubnet(o *kubeObject) {
	id, known := m.asoSubnetID(o)
	if !known {
		m.note(o.by, true, "it names no owner, so it is a part of a manifest, such as a patch: "+
			"check the whole one (kubectl kustomize DIR | routekeeper iac check -)")
		return
	}
	policy := m.policy(o)
	for _, p := range inventory.Properties {
		m.write(id, p, m.asoWrite(o, policy, id, p))
	}
}

// asoKinds are the kinds of objects that a subnet's properties refer to.
var asoKinds = map[inventory.Property]string{inventory.PropertyTable: "RouteTable",
	inventory.PropertyNAT: "NatGateway", inventory.PropertyGroup: "NetworkSecurityGroup"}

// asoWrite returns what a subnet's object does to a property. If it writes an unknown NAT gateway
// or security group, that counts as a value.
func (m *manifests) asoWrite(o *kubeObject, policy string, id arm.ID,
	p inventory.Property) manifestWrite {
	w := manifestWrite{by: o.by, outcome: asoOutcome(o, p)}
	ref := o.spec.At(string(p), "reference")
	switch {
	case policy == "skip":
		w.outcome = keeps
	case w.outcome == gives:
		w.table = manifestText(ref.Get("armId"))
		if made := m.find(groupASONetwork, asoKinds[p], o.namespace,
			manifestText(ref.Get("name"))); w.table == "" && made != nil {
			w.table = azureName(made)
		}
	case w.outcome == doubts && other(p) != "":
		w.outcome = gives
	case w.outcome == doubts:
		w.how = "it is not known which " + string(p) + " the manifest names"
	default:
		w.how = "the manifest names no " + string(p) + ", and Azure Service Operator writes the " +
			"subnet as it says, when it is applied and then every hour by default"
	}
	switch {
	case strings.HasPrefix(policy, "{"):
		w.maybe = "its reconcile-policy " + policy + " is not skip"
	case w.how != "" && !slices.Contains([]string{"", "manage", "detach-on-delete"}, policy):
		w.how += "; it does not know the reconcile-policy " + policy + " and takes it for manage"
	}
	w.fix = nameFix(o.by.Address, "spec."+string(p)+".reference.armId: ID",
		subnetPlace(string(id)), p) + "; or the annotation " + policyAnnotation +
		": skip, if something else manages the subnet"
	return w
}

// asoOutcome returns what a subnet's object does to a property of the subnet.
func asoOutcome(o *kubeObject, p inventory.Property) outcome {
	link := o.spec.Get(string(p))
	ref := link.Get("reference")
	switch {
	case firstText(ref.Get("armId"), ref.Get("name")) != "":
		return gives
	case link.Is(yamltree.Unknown) || link.Is(yamltree.Scalar) || ref.Is(yamltree.Scalar) ||
		ref.Is(yamltree.Unknown) || ref.Is(yamltree.Map) && len(ref.Members) > 0:
		return doubts
	}
	return strips
}

// policy returns an object's reconcile-policy: its own, or that of its namespace. A policy for the
// whole operator is in no manifest.
func (m *manifests) policy(o *kubeObject) string {
	own := manifestText(o.annotations.Get(policyAnnotation))
	if namespace := m.find("v1", "Namespace", "", o.namespace); own == "" && namespace != nil {
		return manifestText(namespace.annotations.Get(policyAnnotation))
	}
	return own
}

func firstText(values ...*yamltree.Value) string {
	for _, v := range values {
		if text := manifestText(v); text != "" {
			return text
		}
	}
	return ""
}

// asoSubnetID returns the ID of a subnet's object; known is false if it has no owner.
func (m *manifests) asoSubnetID(o *kubeObject) (id arm.ID, known bool) {
	owner := o.spec.Get("owner")
	vnet, name := m.fromReference(owner)
	switch {
	case vnet.Is(arm.TypeVNet):
		return vnet + arm.ID("/subnets/"+idPart(azureName(o), "{subnet}")), true
	case vnet != "":
		return subnetID("", "", string(vnet), azureName(o)), true
	case name == "":
		return "", false
	}
	network := m.find(groupASONetwork, "VirtualNetwork", o.namespace, name)
	if network == nil {
		return subnetID("", "", name, azureName(o)), true
	}
	subscription, group := "", ""
	groupID, groupName := m.fromReference(network.spec.Get("owner"))
	if groupID != "" {
		subscription, group = groupID.Subscription(), groupID.ResourceGroup()
	} else if found := m.find("resources.azure.com", "ResourceGroup", o.namespace,
		groupName); found != nil {
		group = azureName(found)
	} else {
		group = groupName
	}
	return subnetID(subscription, group, azureName(network), azureName(o)), true
}

// asoNeeds says why the subnets of a cluster need their table, or returns "".
func asoNeeds(o *kubeObject) string {
	profile := o.spec.Get("networkProfile")
	return nodesNeed(azureName(o), manifestText(profile.Get("networkPlugin")),
		manifestText(profile.Get("outboundType")))
}

func (m *manifests) asoPool(o *kubeObject) {
	ref := o.spec.Get("vnetSubnetReference")
	if ref == nil {
		return
	}
	_, owner := m.fromReference(o.spec.Get("owner"))
	cluster := m.find(groupASOCluster, "ManagedCluster", o.namespace, owner)
	if cluster == nil {
		m.note(o.by, false, "the pool's cluster is not in the files, so its network plugin is "+
			"unknown: name the subnet with --subnet if its pods need a route table")
		return
	}
	m.asoUses(o, ref, asoNeeds(cluster))
}

// asoUses adds the subnet that a reference names, by its ID or by an object.
func (m *manifests) asoUses(o *kubeObject, ref *yamltree.Value, why string) {
	id, name := m.fromReference(ref)
	if why == "" || id == "" && name == "" {
		return
	}
	if id == "" {
		subnet := m.find(groupASONetwork, "VirtualNetworksSubnet", o.namespace, name)
		if subnet == nil {
			m.note(o.by, true, "its subnet is the object %s, which is not in the files, so what "+
				"happens to it is unknown", name)
			return
		}
		if id, _ = m.asoSubnetID(subnet); id == "" {
			return // the subnet's own note says why
		}
	}
	m.carrier(id, o.by, why)
}
