package iac

import (
	"cmp"
	"strings"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/iac/yamltree"
	"routekeeper.dev/routekeeper/internal/inventory"
)

// groupCAPZ is the API group of Cluster API's providers. The kinds of the provider for Azure (CAPZ)
// start with Azure.
const groupCAPZ = "infrastructure.cluster.x-k8s.io"

// managedBy on a cluster's object says that CAPZ leaves its infrastructure alone.
const managedBy = "cluster.x-k8s.io/managed-by"

// capz judges an object of CAPZ. CAPZ writes subnets through Azure Service Operator, and only in a
// network that it created: it leaves one that was there before alone. A file does not show which is
// the case. AzureASOManaged… objects contain objects of Azure Service Operator, which are judged as
// such.
func (m *manifests) capz(o *kubeObject) {
	spec, name := o.spec, o.name
	if template := spec.At("template", "spec"); template != nil {
		spec, name = template, "{control-plane}" // it has the name of each cluster
	}
	if o.annotations.Get(managedBy) != nil {
		return
	}
	switch strings.TrimSuffix(o.kind, "Template") {
	case "AzureManagedControlPlane":
		m.capzManaged(o, spec, name)
	case "AzureCluster":
		m.capzCluster(o, spec, name)
	}
}

const onlyOwn = "; it leaves a network alone that was there before the cluster"

// capzManaged judges an AKS cluster. CAPZ has no field for the table of its subnet (CAPZ#4665), so
// it writes the subnet without the table that AKS has put there.
func (m *manifests) capzManaged(o *kubeObject, spec *yamltree.Value, name string) {
	network := spec.Get("virtualNetwork")
	cluster := cmp.Or(manifestText(spec.Get("resourceName")), name)
	id := subnetID(manifestText(spec.Get("subscriptionID")),
		cmp.Or(manifestText(network.Get("resourceGroup")),
			manifestText(spec.Get("resourceGroupName"))),
		cmp.Or(manifestText(network.Get("name")), name),
		cmp.Or(manifestText(network.At("subnet", "name")), o.name))
	if why := nodesNeed(cluster, manifestText(spec.Get("networkPlugin")),
		manifestText(spec.Get("outboundType"))); why != "" {
		m.carrier(id, o.by, why)
	}
	m.write(id, inventory.PropertyTable, codeWrite{by: o.by, outcome: strips, never: true,
		how: "CAPZ writes the subnet without a route table, and this kind has no field for one " +
			"(cluster-api-provider-azure#4665)" + onlyOwn,
		fix: "create the network yourself before the cluster; or describe the cluster by " +
			"AzureASOManagedControlPlane and AzureASOManagedCluster, whose VirtualNetworksSubnet " +
			"has a routeTable; the subnet's table: " + ask(subnetPlace(string(id)),
			inventory.PropertyTable)})
}

// capzCluster judges a cluster whose machines CAPZ makes. A node subnet without routeTable gets
// CAPZ's own table, and CAPZ does not change a table that exists.
func (m *manifests) capzCluster(o *kubeObject, spec *yamltree.Value, name string) {
	network := spec.At("networkSpec", "vnet")
	group := cmp.Or(manifestText(network.Get("resourceGroup")),
		manifestText(spec.Get("resourceGroup")),
		name)
	vnet := cmp.Or(manifestText(network.Get("name")), name+"-vnet")
	for _, subnet := range spec.At("networkSpec", "subnets").List() {
		id := subnetID(manifestText(spec.Get("subscriptionID")), group, vnet,
			manifestText(subnet.Get("name")))
		by := o.by
		by.Line = cmp.Or(subnet.Line, by.Line)
		w := codeWrite{by: by, outcome: gives, never: true}
		switch table, role := manifestText(subnet.At("routeTable", "name")),
			subnet.Get("role").String(); {
		case table != "":
			w.table = table
		case role == "node" || role == "cluster":
			w.table = name + "-node-routetable"
		default:
			w.outcome = strips
			w.how = "CAPZ writes a subnet with the role " + cmp.Or(manifestText(subnet.Get("role")),
				"control-plane") + " without a route table if it names none" + onlyOwn
			w.fix = nameFix(o.by.Address, "routeTable.name of the subnet",
				subnetPlace(string(id)), inventory.PropertyTable)
		}
		if w.table != "" && !strings.Contains(w.table, "{") {
			w.table = string(arm.ID("/subscriptions/" +
				part(manifestText(spec.Get("subscriptionID")),
					"{subscription}") + "/resourceGroups/" + part(group, "{resource-group}") +
				"/providers/" + arm.TypeRouteTable + "/" + part(w.table, "{table}")))
		}
		m.write(id, inventory.PropertyTable, w)
	}
}
