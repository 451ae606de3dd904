package aks

import (
	"fmt"
	"hash/fnv"
	"net/http"
	"strings"
	"time"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/emulator/entra"
	"routekeeper.dev/routekeeper/internal/emulator/kernel"
)

// Defaults of AKS.
const (
	defaultPodCIDR  = "10.244.0.0/16"
	defaultPodCIDR6 = "fd12:3456:789a::/64"

	defaultServiceCIDR6 = "fd12:3456:789a:1::/108"
)

// settleCluster checks a managed cluster and fills in AKS's defaults.
func (s *AKS) settleCluster(c *kernel.Call, r, old *kernel.Resource) *kernel.Failure {
	properties := r.Properties()
	dropSecrets(properties)
	var before kernel.Object
	if old != nil {
		if f := s.checkChangeable(old); f != nil {
			return f
		}
		before = old.Properties()
		keepLeftOut(properties, before)
		kernel.SetDefault(r.Body, "identity", kernel.CloneValue(old.Body["identity"]))
	}
	if f := settleNetworkProfile(properties, before, overlayAt(c)); f != nil {
		return f
	}
	kernel.SetDefault(properties, "nodeResourceGroup", fmt.Sprintf("MC_%s_%s_%s",
		r.ID.ResourceGroup(), r.ID.Name(), kernel.Text(r.Body, "location")))
	kernel.SetDefault(properties, "dnsPrefix", r.ID.Name())
	kernel.SetDefault(properties, "kubernetesVersion", KubernetesVersions[0])
	kernel.SetDefault(properties, "enableRBAC", true)
	if !hasServicePrincipal(r.Body) {
		kernel.SetDefault(r.Body, "identity", kernel.Object{"type": "SystemAssigned"})
	}
	properties["powerState"] = kernel.Object{"code": "Running"}
	if group := kernel.Text(properties, "nodeResourceGroup"); before == nil {
		if f := s.checkNodeGroup(r.ID, arm.GroupID(r.ID.Subscription(), group)); f != nil {
			return f
		}
	} else if !strings.EqualFold(kernel.Text(before, "nodeResourceGroup"), group) {
		return unchangeable("properties.nodeResourceGroup")
	}
	if f := checkUpgrade(properties, before); f != nil {
		return f
	}
	if f := kernel.CheckList(properties, "agentPoolProfiles"); f != nil {
		return f
	}
	pools := kernel.ListAt(properties, "agentPoolProfiles")
	if len(pools) == 0 {
		return kernel.Bad("InvalidParameter",
			"Required parameter agentPoolProfiles is missing (null).")
	}
	for _, p := range pools {
		var had kernel.Object
		if old != nil {
			had = profileOf(old, kernel.Text(p, "name"))
		}
		kernel.SetDefault(p, "mode", "System")
		if f := settlePool(p, had, properties); f != nil {
			return f
		}
	}
	if f := s.pools.check(r.ID, properties, old == nil); f != nil {
		return f
	}
	if cl := s.Clusters[r.ID.Key()]; cl != nil &&
		modeOf(kernel.ObjectAt(properties, "networkProfile")) != cl.Mode {
		if f := s.migrations.checkMigration(cl); f != nil {
			return f
		}
	}
	r.Doing = stateDuringUpdate(properties, before)
	return s.checkClusterIdentity(r)
}

// keepLeftOut fills in what a PUT leaves out: a cluster keeps these fields and each storage driver
// (recorded). The network profile has its own rules.
func keepLeftOut(properties, before kernel.Object) {
	for field, value := range before {
		if field != "networkProfile" {
			kernel.SetDefault(properties, field, kernel.CloneValue(value))
		}
	}
	kernel.KeepLeftOut(properties, kernel.Object{"storageProfile": before["storageProfile"]})
}

// checkNodeGroup refuses a node resource group that cannot be created for the cluster.
func (s *AKS) checkNodeGroup(cluster, group arm.ID) *kernel.Failure {
	switch {
	case group.Equal(cluster.Group()):
		return kernel.Bad("NodeResourceGroupSameAsResourceGroup",
			"The node resource group %s is the resource group of the cluster.", group.Name())
	case s.kernel.Store.Get(group) != nil:
		return kernel.Bad("NodeResourceGroupAlreadyExists", "The provided node resource group "+
			"name %s already exists. Please provide a new resource group name.", group.Name())
	}
	return nil
}

// stateDuringUpdate returns a cluster's provisioning state while a creation or an update runs.
func stateDuringUpdate(properties, before kernel.Object) string {
	if before == nil {
		return "Creating"
	}
	was := map[string]kernel.Object{}
	for _, p := range kernel.ListAt(before, "agentPoolProfiles") {
		was[kernel.Text(p, "name")] = p
	}
	for _, p := range kernel.ListAt(properties, "agentPoolProfiles") {
		had := was[kernel.Text(p, "name")]
		if had != nil && upgrades(p, had) {
			return "Upgrading"
		}
	}
	if kernel.Text(properties, "kubernetesVersion") != kernel.Text(before, "kubernetesVersion") {
		return "Upgrading"
	}
	return "Updating" // even if only a count changes
}

// storedCluster makes what belongs to a cluster. A new cluster for which that fails is deleted.
func (s *AKS) storedCluster(c *kernel.Call, r, old *kernel.Resource) *kernel.Failure {
	f := s.makeCluster(c, r, old)
	if f != nil && old == nil {
		s.clusterRemoved(r)
		s.kernel.Store.Remove(r.ID)
	}
	return f
}

// makeCluster creates what belongs to a cluster, or updates it to the new document.
func (s *AKS) makeCluster(c *kernel.Call, r, old *kernel.Resource) *kernel.Failure {
	cl := s.Clusters[r.ID.Key()]
	if cl == nil {
		cl = s.newCluster(r)
		s.Clusters[r.ID.Key()] = cl
		s.nodeGroups[cl.NodeGroup.Key()] = cl
	}
	cl.Who = s.clusterPrincipal(r)
	if to := modeOf(kernel.ObjectAt(r.Body, "properties", "networkProfile")); to != cl.Mode {
		s.migrations.migrate(cl, r, to)
	}
	moving := time.Duration(0)
	if cl.Leaving {
		moving = time.Until(r.BusyUntil)
	}
	if f := s.makeNetwork(cl, r); f != nil {
		return f
	}
	if f := (balancers{s}).balance(cl,
		kernel.ObjectAt(r.Body, "properties", "networkProfile")); f != nil {
		return f
	}
	wanted := map[string]bool{}
	for _, p := range kernel.ListAt(r.Properties(), "agentPoolProfiles") {
		wanted[kernel.Text(p, "name")] = true
		if f := s.nodes.setPool(cl, p, r.Doing); f != nil {
			return f
		}
		if old == nil {
			continue
		}
		if moving > 0 { // the nodes move once the surge nodes are there
			run := cl.Pool(kernel.Text(p, "name"))
			if f := s.nodes.moveToOverlay(cl, run, p, moving); f != nil {
				return f
			}
		}
		if had := profileOf(old, kernel.Text(p, "name")); had != nil && upgrades(p, had) {
			if f := s.nodes.upgrade(cl, cl.Pool(kernel.Text(p, "name")), p,
				s.kernel.OperationTime(c)); f != nil {
				return f
			}
		}
	}
	for _, p := range append([]*pool(nil), cl.Pools...) {
		if !wanted[p.Name] {
			s.nodes.removePool(cl, p)
		}
	}
	if f := makePrivate(s, cl, r); f != nil {
		return f
	}
	s.nodes.nodesChanged(cl)
	return nil
}

// DigitsOf returns the eight digits in the names of what AKS makes for a cluster.
func DigitsOf(cluster arm.ID) string {
	h := fnv.New32a()
	h.Write([]byte(cluster.Key()))
	return fmt.Sprintf("%08d", h.Sum32()%100_000_000)
}

// newCluster gives a cluster its name parts and its identity.
func (s *AKS) newCluster(r *kernel.Resource) *cluster {
	properties := r.Properties()
	cl := &cluster{
		ID:        r.ID,
		Digits:    DigitsOf(r.ID),
		Location:  kernel.Text(r.Body, "location"),
		NodeGroup: arm.GroupID(r.ID.Subscription(), kernel.Text(properties, "nodeResourceGroup")),
		Mode:      modeOf(kernel.ObjectAt(properties, "networkProfile")),
		PodCIDRs:  arm.ParsePrefixes(kernel.List(properties, "networkProfile", "podCidrs")),
	}
	if cl.Who = s.clusterPrincipal(r); arm.ID(cl.Who.Resource).Equal(r.ID) {
		s.entra.Identity.Add(cl.Who)
	}
	cl.provider = &cloudProvider{AKS: s, cluster: cl}
	return cl
}

// makeNetwork makes the node resource group and those parts of the network that the cluster does
// not reuse: virtual network, route table, and the association of node subnets that have no table.
func (s *AKS) makeNetwork(cl *cluster, r *kernel.Resource) *kernel.Failure {
	if f := s.createMissing(cl, cl.NodeGroup, kernel.Object{"managedBy": string(cl.ID)}); f != nil {
		return f
	}
	s.authorization.Assign(cl.NodeGroup, cl.Who, "Contributor")
	made := []arm.ID{cl.kubeletIdentity(), cl.securityGroup()}
	for _, addon := range addonsWithIdentity {
		if hasAddon(r.Body, addon) {
			made = append(made, cl.AddonIdentity(addon))
		}
	}
	for _, id := range made {
		if f := s.createMissing(cl, id, kernel.Object{}); f != nil {
			return f
		}
	}
	var subnets []arm.ID
	own := false
	for _, p := range kernel.ListAt(r.Properties(), "agentPoolProfiles") {
		if id := arm.ID(kernel.Text(p, "vnetSubnetID")); id != "" {
			subnets = append(subnets, id)
		} else {
			own = true
		}
	}
	if own {
		if f := s.makeOwnNetwork(cl); f != nil {
			return f
		}
		subnets = append(subnets, cl.OwnSubnet())
	}
	if cl.Mode != modeKubenet || cl.Leaving {
		return nil
	}
	if cl.Table == "" { // an existing subnet with a table is used unchanged
		for _, id := range subnets {
			if table := kernel.LinkOf(s.kernel.Store.Get(id).Body, "routeTable"); table != "" &&
				cl.Table == "" {
				cl.Table = table
			}
		}
	}
	if cl.Table == "" || s.kernel.Store.Get(cl.Table) == nil &&
		strings.EqualFold(string(cl.Table.Group()), string(cl.NodeGroup)) {
		cl.Table = cl.inNodeGroup(arm.TypeRouteTable, "aks-agentpool-"+cl.Digits+"-routetable")
		if f := s.aksPut(cl, cl.Table,
			kernel.Object{"properties": kernel.Object{"routes": []any{}}}); f != nil {
			return f
		}
	}
	for _, id := range subnets {
		subnet := s.kernel.Store.Get(id)
		if kernel.LinkOf(subnet.Body, "routeTable") != "" {
			continue
		}
		body := kernel.Clone(subnet.Body)
		kernel.ObjectAt(body, "properties")["routeTable"] = arm.Link(cl.Table)
		if f := s.aksPut(cl, id, body); f != nil {
			return f
		}
	}
	return nil
}

// makeOwnNetwork makes the network of a cluster that uses no existing one.
func (s *AKS) makeOwnNetwork(cl *cluster) *kernel.Failure {
	if s.kernel.Store.Get(cl.OwnSubnet()) != nil {
		return nil
	}
	space, nodes := []any{"10.224.0.0/12"}, kernel.Object{"addressPrefix": "10.224.0.0/16"}
	if _, v6 := familiesOf(cl.PodCIDRs); v6 { // the IPv6 prefixes of AKS are not documented [U]
		space = append(space, "fd3d:1c6e:d4a8::/56")
		nodes = kernel.Object{"addressPrefixes": []any{"10.224.0.0/16", "fd3d:1c6e:d4a8::/64"}}
	}
	nodes["networkSecurityGroup"] = arm.Link(cl.securityGroup())
	return s.aksPut(cl, cl.OwnSubnet().Parent(), kernel.Object{"properties": kernel.Object{
		"addressSpace": kernel.Object{"addressPrefixes": space},
		"subnets":      []any{kernel.Object{"name": cl.OwnSubnet().Name(), "properties": nodes}},
	}})
}

// aksPut writes a resource as the cluster's identity. AKS waits for operations on the network to
// end before it continues; here its writes ignore them.
func (s *AKS) aksPut(cl *cluster, id arm.ID, body kernel.Object) *kernel.Failure {
	if body["location"] == nil && !id.Is(arm.TypeSubnet) {
		body["location"] = cl.Location
	}
	c := cl.call(http.MethodPut, id, body)
	if f := s.authorization.Govern(c); f != nil {
		s.kernel.Record(c, id, "write", f)
		return f
	}
	return s.aksWrite(c, id, body)
}

// createMissing works like aksPut if the resource does not exist yet. Otherwise it does nothing.
func (s *AKS) createMissing(cl *cluster, id arm.ID, body kernel.Object) *kernel.Failure {
	if s.kernel.Store.Get(id) != nil {
		return nil
	}
	return s.aksPut(cl, id, body)
}

// aksWrite works like aksPut without the checks of locks and policies.
func (s *AKS) aksWrite(c *kernel.Call, id arm.ID, body kernel.Object) *kernel.Failure {
	_, f := s.kernel.PutResource(c, id, body)
	s.kernel.Record(c, id, "write", f)
	return f
}

// call returns an internal call by the cluster's identity.
func (cl *cluster) call(method string, id arm.ID, body kernel.Object) *kernel.Call {
	var raw []byte
	if body != nil {
		raw = kernel.Encode(body)
	}
	return kernel.CallBy(cl.Who, method, id, kernel.NetworkVersion, raw)
}

// showCluster adds the fields that AKS fills in for a running cluster.
func (s *AKS) showCluster(r *kernel.Resource, doc kernel.Object, version string) {
	properties := kernel.ObjectAt(doc, "properties")
	showAPIServer(r.ID, properties)
	s.APIServers.showIssuer(r, properties)
	properties["currentKubernetesVersion"] = fullVersion(kernel.Text(properties,
		"kubernetesVersion"))
	properties["maxAgentPools"] = mostPools(properties)
	for _, p := range kernel.ListAt(properties, "agentPoolProfiles") {
		s.pools.show(r, p)
	}
	cl := s.Clusters[r.ID.Key()]
	if cl == nil {
		return
	}
	showOutbound(cl, kernel.ObjectAt(properties, "networkProfile"))
	showProxy(s, cl, r, properties)
	identity := kernel.ObjectAt(doc, "identity")
	if identity == nil { // the cluster uses a service principal
		return
	}
	if s.entra.ShowAssigned(doc); identity["userAssignedIdentities"] == nil {
		identity["principalId"], identity["tenantId"] = cl.Who.ObjectID, cl.Who.Tenant
	}
	for _, addon := range addonsWithIdentity {
		if own := s.kernel.Store.Get(cl.AddonIdentity(addon)); own != nil && hasAddon(doc, addon) {
			kernel.ObjectAt(properties, "addonProfiles", addon)["identity"] = shownIdentity(own)
		}
	}
	config := kernel.ObjectAt(properties, "addonProfiles", IngressAddon, "config")
	if asked := config["applicationGatewayId"]; asked != nil {
		config["effectiveApplicationGatewayId"] = asked
	}
	if !hasServicePrincipal(doc) {
		properties["servicePrincipalProfile"] = kernel.Object{"clientId": "msi"}
	}
	// unless the document names an existing identity
	if kubelet := s.kernel.Store.Get(cl.kubeletIdentity()); kubelet != nil &&
		properties["identityProfile"] == nil {
		properties["identityProfile"] = kernel.Object{"kubeletidentity": shownIdentity(kubelet)}
	}
}

// shownIdentity returns how a cluster shows an identity that AKS creates.
func shownIdentity(r *kernel.Resource) kernel.Object {
	who := entra.IdentityOf(r)
	return kernel.Object{"resourceId": string(r.ID), "clientId": who.ClientID,
		"objectId": who.ObjectID}
}

// kubeletIdentity returns the identity that AKS creates for the nodes.
func (cl *cluster) kubeletIdentity() arm.ID {
	return cl.inNodeGroup(arm.TypeIdentity, cl.ID.Name()+"-agentpool")
}

// addonsWithIdentity are the add-ons for which AKS creates an identity (the summary of them in
// azure/aks/use-managed-identity).
var addonsWithIdentity = []string{"ingressApplicationGateway", "azureKeyvaultSecretsProvider",
	"azurepolicy", "omsagent", "aciConnectorLinux", "httpApplicationRouting"}

// AddonIdentity returns the identity that AKS creates for an add-on
// (application-gateway-kubernetes-ingress#1616). It has no role: az assigns the ones it needs.
func (cl *cluster) AddonIdentity(addon string) arm.ID {
	return cl.inNodeGroup(arm.TypeIdentity, strings.ToLower(addon)+"-"+cl.ID.Name())
}

func hasAddon(body kernel.Object, addon string) bool {
	return kernel.ObjectAt(body, "properties", "addonProfiles", addon)["enabled"] == true
}

// hasServicePrincipal reports whether a cluster uses a service principal instead of a managed
// identity.
func hasServicePrincipal(body kernel.Object) bool {
	client := kernel.Text(body, "properties", "servicePrincipalProfile", "clientId")
	return client != "" && client != "msi"
}

// clusterRemoved deletes what belonged to the cluster. An existing network that it used stays, with
// the routes that its cloud provider wrote.
func (s *AKS) clusterRemoved(r *kernel.Resource) {
	cl := s.Clusters[r.ID.Key()]
	if cl == nil {
		return
	}
	delete(s.Clusters, r.ID.Key())
	cl.tellWatchers()
	delete(s.nodeGroups, cl.NodeGroup.Key())
	cl.provider.stop()
	leaveZone(s, cl, r)
	if arm.ID(cl.Who.Resource).Equal(cl.ID) {
		s.entra.Identity.Remove(cl.Who)
	}
	for _, p := range append([]*pool(nil), cl.Pools...) {
		s.nodes.removePool(cl, p)
	}
	// the managed table may be associated with existing subnets, which lose it
	if cl.Table.Group().Equal(cl.NodeGroup) {
		s.migrations.disassociate(cl, cl.Table)
	}
	if group := s.kernel.Store.Get(cl.NodeGroup); group != nil {
		_ = s.kernel.RemoveResource(group) // nothing in it can refuse the delete
	}
}
