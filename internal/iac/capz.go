package iac

import (
	"cmp"
	"slices"
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

// capzManaged judges an AKS cluster. CAPZ has no field for the table of its subnet (CAPZ#4665), nor
// for a NAT gateway or a group (SubnetSpecs in azure/scope/managedcontrolplane.go), so it writes
// the subnet without what AKS or a person has put there.
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
		m.write(id, p, codeWrite{by: o.by, outcome: strips, never: true,
			how: "CAPZ writes the subnet without a " + p.Name() + ", and this kind has no field " +
				"for one" + source + onlyOwn,
			fix: "create the network yourself before the cluster; or describe the cluster by " +
				"AzureASOManagedControlPlane and AzureASOManagedCluster, whose " +
				"VirtualNetworksSubnet has a " + string(p) + "; the subnet's " + p.Noun() + ": " +
				ask(subnetPlace(string(id)), p)})
	}
}

// capzFields are what the subnets of an AzureCluster call the properties.
var capzFields = map[inventory.Property]string{inventory.PropertyTable: "routeTable",
	inventory.PropertyNAT: "natGateway", inventory.PropertyGroup: "securityGroup"}

// capzOwn reports whether CAPZ gives a subnet that names no value of a property one of its own
// (setNodeSubnetDefaults and others in api/v1beta1/azurecluster_default.go). A NAT gateway carries
// no IPv6, and a subnet with an ID is there already.
func capzOwn(p inventory.Property, subnet *yamltree.Value) bool {
	role := subnet.Get("role").String()
	switch p {
	case inventory.PropertyGroup:
		return slices.Contains([]string{"", "control-plane", "node", "cluster"}, role)
	case inventory.PropertyNAT:
		return role == "cluster" || role == "node" && manifestText(subnet.Get("id")) == "" &&
			!slices.ContainsFunc(subnet.Get("cidrBlocks").List(), func(c *yamltree.Value) bool {
				return strings.Contains(c.String(), ":")
			})
	case inventory.PropertyTable:
	}
	return role == "node" || role == "cluster"
}

// capzCluster judges a cluster whose machines CAPZ makes. It writes what a subnet names or gets by
// default, and nothing else (azure/services/subnets/spec.go). It does not change a table that
// exists.
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
		for _, p := range inventory.Properties {
			m.write(id, p, capzWrite(o, p, subnet, id, codeWrite{by: by, outcome: gives,
				never: true}, name))
		}
	}
}

// capzWrite completes a write of a subnet's property by an AzureCluster with a name.
func capzWrite(o *kubeObject, p inventory.Property, subnet *yamltree.Value, id arm.ID,
	w codeWrite, name string) codeWrite {
	w.table = manifestText(subnet.At(capzFields[p], "name"))
	switch {
	case w.table != "":
	case !capzOwn(p, subnet):
		w.outcome = strips
		w.how = "CAPZ writes a subnet with the role " + cmp.Or(manifestText(subnet.Get("role")),
			"control-plane") + " without a " + p.Name() + " if it names none" + onlyOwn
		w.fix = nameFix(o.by.Address, capzFields[p]+".name of the subnet",
			subnetPlace(string(id)), p)
	case p == inventory.PropertyTable:
		w.table = name + "-node-routetable"
	}
	if w.table != "" && !strings.Contains(w.table, "{") {
		w.table = string(id.Group()) + "/providers/" + p.Type() + "/" + part(w.table, "{table}")
	}
	return w
}
