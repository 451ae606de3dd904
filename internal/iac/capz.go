package iac

import (
	"cmp"
	"strings"

	"routekeeper.dev/routekeeper/internal/iac/yamltree"
	"routekeeper.dev/routekeeper/internal/inventory"
)

// groupCAPZ is the API group of Cluster API's providers. The kinds of the provider for Azure (CAPZ)
// start with Azure.
const groupCAPZ = "infrastructure.cluster.x-k8s.io"

// managedBy on a cluster's object means that CAPZ does not touch its infrastructure.
const managedBy = "cluster.x-k8s.io/managed-by"

// capz judges an object of CAPZ. CAPZ writes subnets through Azure Service Operator, but only in a
// network that it created. It does not touch one that existed before. A file does not show which of
// the two it is. AzureASOManaged… objects contain objects of Azure Service Operator, which are
// judged as such.
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
		m.note(o.by, false, "it is no AKS cluster: what CAPZ writes of its subnets is not checked")
	}
}

const onlyOwn = "; it does not touch a network that existed before the cluster"

// capzManaged judges an AKS cluster. CAPZ has no field for the table of the cluster's subnet
// (CAPZ#4665), or for a NAT gateway or a group (SubnetSpecs in azure/scope/managedcontrolplane.go).
// So it writes the subnet without what AKS or a person has put there.
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
	for _, p := range inventory.Properties {
		source := " (SubnetSpecs of its managed control plane)"
		if p == inventory.PropertyTable {
			source = " (cluster-api-provider-azure#4665)"
		}
		m.write(id, p, manifestWrite{by: o.by, outcome: strips, never: true,
			how: "CAPZ writes the subnet without a " + p.Name() + ", and this kind has no field " +
				"for one" + source + onlyOwn,
			fix: "create the network yourself before the cluster; or describe the cluster by " +
				"AzureASOManagedControlPlane and AzureASOManagedCluster, whose " +
				"VirtualNetworksSubnet has a " + string(p) + "; the subnet's " + p.Noun() + ": " +
				showCommand(subnetPlace(string(id)), p)})
	}
}
