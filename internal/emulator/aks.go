package emulator

import (
	"fmt"
	"hash/fnv"
	"net/http"
	"slices"
	"strings"

	"github.com/google/uuid"

	"routekeeper.dev/routekeeper/internal/arm"
)

// Defaults of AKS.
const (
	defaultPodCIDR  = "10.244.0.0/16"
	defaultPodCIDR6 = "fd12:3456:789a::/64"
	networkVersion  = "2025-05-01" // the api-version of AKS's own calls to the network
)

// settleCluster checks a managed cluster and fills in what AKS does.
func (s *aks) settleCluster(c *call, r, old *resource) *failure {
	properties := objectAt(r.body, "properties")
	var before object
	if old != nil {
		if f := s.changeable(old); f != nil {
			return f
		}
		before = objectAt(old.body, "properties")
		for _, field := range []string{"nodeResourceGroup", "dnsPrefix", "kubernetesVersion",
			"agentPoolProfiles"} {
			if before[field] != nil {
				setDefault(properties, field, cloneValue(before[field]))
			}
		}
		setDefault(r.body, "identity", cloneValue(old.body["identity"]))
	}
	if f := settleNetworkProfile(properties, before, overlayAt(c)); f != nil {
		return f
	}
	setDefault(properties, "nodeResourceGroup", fmt.Sprintf("MC_%s_%s_%s", r.id.ResourceGroup(),
		r.id.Name(), text(r.body, "location")))
	setDefault(properties, "dnsPrefix", r.id.Name())
	setDefault(properties, "kubernetesVersion", kubernetesVersions[0])
	setDefault(properties, "enableRBAC", true)
	if !hasServicePrincipal(r.body) {
		setDefault(r.body, "identity", object{"type": "SystemAssigned"})
	}
	properties["powerState"] = object{"code": "Running"}
	if before == nil {
		if f := s.checkNodeGroup(r.id,
			arm.GroupID(r.id.Subscription(), text(properties, "nodeResourceGroup"))); f != nil {
			return f
		}
	}
	if before != nil && !strings.EqualFold(text(before, "nodeResourceGroup"),
		text(properties, "nodeResourceGroup")) {
		return unchangeable("properties.nodeResourceGroup")
	}
	if f := checkUpgrade(properties, before); f != nil {
		return f
	}
	if f := checkList(properties, "agentPoolProfiles"); f != nil {
		return f
	}
	pools := listAt(properties, "agentPoolProfiles")
	if len(pools) == 0 {
		return fail(http.StatusBadRequest, "InvalidParameter",
			"Required parameter agentPoolProfiles is missing (null).")
	}
	for _, p := range pools {
		var had object
		if old != nil {
			had = profileOf(old, text(p, "name"))
		}
		setDefault(p, "mode", "System")
		if f := settlePool(p, had, properties); f != nil {
			return f
		}
	}
	if f := s.checkPools(r.id, properties, old == nil); f != nil {
		return f
	}
	if cl := s.clusters[r.id.Key()]; cl != nil &&
		modeOf(objectAt(properties, "networkProfile")) != cl.mode {
		if f := s.leavable(cl); f != nil {
			return f
		}
	}
	r.doing = doingTo(properties, before)
	return s.checkClusterIdentity(r)
}

// checkNodeGroup refuses a node resource group that cannot be made for the cluster.
func (s *aks) checkNodeGroup(cluster, group arm.ID) *failure {
	switch {
	case group.Equal(cluster.Group()):
		return fail(http.StatusBadRequest, "NodeResourceGroupSameAsResourceGroup",
			"The node resource group %s is the resource group of the cluster.", group.Name())
	case s.kernel.store.get(group) != nil:
		return fail(http.StatusBadRequest, "NodeResourceGroupAlreadyExists", "The provided node "+
			"resource group name %s already exists. Please provide a new resource group name.",
			group.Name())
	}
	return nil
}

// doingTo is the state in which a cluster is while it is brought from one document to the next.
func doingTo(properties, before object) string {
	if before == nil {
		return "Creating"
	}
	was := map[string]object{}
	for _, p := range listAt(before, "agentPoolProfiles") {
		was[text(p, "name")] = p
	}
	for _, p := range listAt(properties, "agentPoolProfiles") {
		had := was[text(p, "name")]
		if had != nil && upgrades(p, had) {
			return "Upgrading"
		}
	}
	if text(properties, "kubernetesVersion") != text(before, "kubernetesVersion") {
		return "Upgrading"
	}
	return "Updating" // also where only a count changes
}

func setDefault(o object, field string, value any) {
	if o[field] == nil || o[field] == "" {
		o[field] = value
	}
}

// storedCluster makes what a cluster is made of, or brings it to what the document says now.
func (s *aks) storedCluster(c *call, r, old *resource) *failure {
	cl := s.clusters[r.id.Key()]
	if cl == nil {
		cl = s.newCluster(r)
		s.clusters[r.id.Key()] = cl
		s.nodeGroups[cl.nodeGroup.Key()] = cl
	}
	cl.who = s.clusterPrincipal(r)
	if to := modeOf(objectAt(r.body, "properties", "networkProfile")); to != cl.mode {
		s.migrate(cl, r, to)
	}
	if f := s.makeNetwork(cl, r); f != nil {
		return s.undo(cl, old, f)
	}
	wanted := map[string]bool{}
	for _, p := range listAt(objectAt(r.body, "properties"), "agentPoolProfiles") {
		wanted[text(p, "name")] = true
		if f := s.setPool(cl, p, r.doing); f != nil {
			return s.undo(cl, old, f)
		}
		if old == nil {
			continue
		}
		if had := profileOf(old, text(p, "name")); had != nil && upgrades(p, had) {
			if f := s.upgrade(cl, cl.pool(text(p, "name")), p,
				s.kernel.operationTime(c)); f != nil {
				return f
			}
		}
	}
	for _, p := range append([]*pool(nil), cl.pools...) {
		if !wanted[p.name] {
			s.removePool(cl, p)
		}
	}
	if f := s.makePrivate(cl, r); f != nil {
		return s.undo(cl, old, f)
	}
	s.nodesChanged(cl)
	return nil
}

// undo takes a new cluster away again that could not be made.
func (s *aks) undo(cl *cluster, old *resource, f *failure) *failure {
	if old == nil {
		if r := s.kernel.store.get(cl.id); r != nil {
			s.clusterRemoved(r)
			s.kernel.store.remove(cl.id)
		}
	}
	return f
}

// digitsOf are the eight digits in the names of what AKS makes for a cluster.
func digitsOf(cluster arm.ID) string {
	h := fnv.New32a()
	h.Write([]byte(cluster.Key()))
	return fmt.Sprintf("%08d", h.Sum32()%100_000_000)
}

// newCluster gives a cluster its names and its identity.
func (s *aks) newCluster(r *resource) *cluster {
	properties := objectAt(r.body, "properties")
	cl := &cluster{
		id:        r.id,
		digits:    digitsOf(r.id),
		location:  text(r.body, "location"),
		nodeGroup: arm.GroupID(r.id.Subscription(), text(properties, "nodeResourceGroup")),
		mode:      modeOf(objectAt(properties, "networkProfile")),
		podCIDRs:  validPrefixes(list(objectAt(properties, "networkProfile"), "podCidrs")),
	}
	if cl.who = s.clusterPrincipal(r); arm.ID(cl.who.Resource).Equal(r.id) {
		s.entra.identity.add(cl.who)
	}
	cl.provider = &cloudProvider{aks: s, cluster: cl, bugs: s.kernel.opts.RouteBugs}
	return cl
}

// makeNetwork makes the node resource group and what of the network the cluster does not bring:
// virtual network, route table, and the association of node subnets that have none.
func (s *aks) makeNetwork(cl *cluster, r *resource) *failure {
	if s.kernel.store.get(cl.nodeGroup) == nil {
		if f := s.aksPut(cl, cl.nodeGroup, object{"managedBy": string(cl.id)}); f != nil {
			return f
		}
	}
	if own := cl.kubeletIdentity(); s.kernel.store.get(own) == nil {
		if f := s.aksPut(cl, own, object{}); f != nil {
			return f
		}
	}
	for _, addon := range addonsWithIdentity {
		if own := cl.addonIdentity(addon); hasAddon(r.body, addon) &&
			s.kernel.store.get(own) == nil {
			if f := s.aksPut(cl, own, object{}); f != nil {
				return f
			}
		}
	}
	s.authorization.assign(cl.nodeGroup, cl.who, "Contributor")
	var subnets []arm.ID
	own := false
	for _, p := range listAt(objectAt(r.body, "properties"), "agentPoolProfiles") {
		if id := arm.ID(text(p, "vnetSubnetID")); id != "" {
			subnets = append(subnets, id)
		} else {
			own = true
		}
	}
	if own {
		if s.kernel.store.get(cl.ownSubnet()) == nil {
			space, nodes := []any{"10.224.0.0/12"}, object{"addressPrefix": "10.224.0.0/16"}
			if _, v6 := familiesOf(cl.podCIDRs); v6 { // its own prefixes are not documented [U]
				space = append(space, "fd3d:1c6e:d4a8::/56")
				nodes = object{"addressPrefixes": []any{"10.224.0.0/16", "fd3d:1c6e:d4a8::/64"}}
			}
			body := object{"properties": object{
				"addressSpace": object{"addressPrefixes": space},
				"subnets":      []any{object{"name": cl.ownSubnet().Name(), "properties": nodes}},
			}}
			if f := s.aksPut(cl, cl.ownSubnet().Parent(), body); f != nil {
				return f
			}
		}
		subnets = append(subnets, cl.ownSubnet())
	}
	if cl.mode != modeKubenet || cl.leaving {
		return nil
	}
	if cl.table == "" { // a brought subnet with its brought table is used as it is
		for _, id := range subnets {
			if table := linkOf(s.kernel.store.get(id).body, "routeTable"); table != "" &&
				cl.table == "" {
				cl.table = table
			}
		}
	}
	if cl.table == "" || s.kernel.store.get(cl.table) == nil &&
		strings.EqualFold(string(cl.table.Group()), string(cl.nodeGroup)) {
		cl.table = arm.ResourceID(cl.id.Subscription(), cl.nodeGroup.Name(), arm.TypeRouteTable,
			"aks-agentpool-"+cl.digits+"-routetable")
		if f := s.aksPut(cl, cl.table, object{"properties": object{"routes": []any{}}}); f != nil {
			return f
		}
	}
	for _, id := range subnets {
		subnet := s.kernel.store.get(id)
		if linkOf(subnet.body, "routeTable") != "" {
			continue
		}
		body := clone(subnet.body)
		objectAt(body, "properties")["routeTable"] = object{"id": string(cl.table)}
		if f := s.aksPut(cl, id, body); f != nil {
			return f
		}
	}
	return nil
}

// aksPut writes a resource as the cluster's identity. AKS waits for operations on the network to
// end before it goes on; here its own writes just do not mind them.
func (s *aks) aksPut(cl *cluster, id arm.ID, body object) *failure {
	if body["location"] == nil && !id.Is(arm.TypeSubnet) {
		body["location"] = cl.location
	}
	c := cl.call(http.MethodPut, id, body)
	if f := s.authorization.govern(c); f != nil {
		s.kernel.record(c, id, "write", f)
		return f
	}
	return s.aksWrite(c, id, body)
}

// aksWrite is aksPut without a look at locks and policies.
func (s *aks) aksWrite(c *call, id arm.ID, body object) *failure {
	_, f := s.kernel.putResource(c, id, body)
	s.kernel.record(c, id, "write", f)
	return f
}

// call makes a call by the cluster's identity that does not come over the wire.
func (cl *cluster) call(method string, id arm.ID, body object) *call {
	c := &call{
		method: method, path: strings.Split(strings.TrimPrefix(string(id), "/"), "/"),
		header: http.Header{}, base: "https://localhost", version: networkVersion, who: cl.who,
		ids: [2]string{uuid.NewString(), uuid.NewString()},
	}
	if body != nil {
		c.body = encode(body)
	}
	return c
}

// showCluster adds what AKS says of a running cluster.
func (s *aks) showCluster(r *resource, doc object, version string) {
	delete(doc, "etag")
	properties := objectAt(doc, "properties")
	showAPIServer(r.id, properties)
	s.showIssuer(r, properties)
	properties["currentKubernetesVersion"] = fullVersion(text(properties, "kubernetesVersion"))
	properties["maxAgentPools"] = maxPools
	if slices.ContainsFunc(listAt(properties, "agentPoolProfiles"), func(p object) bool {
		return text(p, "type") == "AvailabilitySet"
	}) {
		properties["maxAgentPools"] = 1
	}
	showOutbound(r, objectAt(properties, "networkProfile"), text(properties, "nodeResourceGroup"))
	for _, p := range listAt(properties, "agentPoolProfiles") {
		s.showPool(r, p)
	}
	cl := s.clusters[r.id.Key()]
	if cl == nil {
		return
	}
	identity := objectAt(doc, "identity")
	if identity == nil { // it works as a service principal
		return
	}
	if assigned := objectAt(identity, "userAssignedIdentities"); assigned != nil {
		for id := range assigned {
			if r := s.kernel.store.get(arm.ID(id)); r != nil {
				assigned[id] = object{"clientId": identityOf(r).ClientID,
					"principalId": identityOf(r).ObjectID}
			}
		}
	} else {
		identity["principalId"], identity["tenantId"] = cl.who.ObjectID, cl.who.Tenant
	}
	for _, addon := range addonsWithIdentity {
		if own := s.kernel.store.get(cl.addonIdentity(addon)); own != nil && hasAddon(doc, addon) {
			objectAt(properties, "addonProfiles", addon)["identity"] = object{
				"resourceId": string(own.id), "clientId": identityOf(own).ClientID,
				"objectId": identityOf(own).ObjectID,
			}
		}
		config := objectAt(properties, "addonProfiles", "ingressApplicationGateway", "config")
		if asked := config["applicationGatewayId"]; asked != nil {
			config["effectiveApplicationGatewayId"] = asked
		}
	}
	if !hasServicePrincipal(doc) {
		properties["servicePrincipalProfile"] = object{"clientId": "msi"}
	}
	// or one that was brought
	if kubelet := s.kernel.store.get(cl.kubeletIdentity()); kubelet != nil &&
		properties["identityProfile"] == nil {
		properties["identityProfile"] = object{"kubeletidentity": object{
			"resourceId": string(kubelet.id), "clientId": identityOf(kubelet).ClientID,
			"objectId": identityOf(kubelet).ObjectID,
		}}
	}
}

// kubeletIdentity is the identity that AKS makes for the nodes.
func (cl *cluster) kubeletIdentity() arm.ID {
	return arm.ResourceID(cl.id.Subscription(), cl.nodeGroup.Name(), typeUserIdentity, cl.id.Name()+
		"-agentpool")
}

// addonsWithIdentity are the add-ons for which AKS makes an identity, with which they work in
// Azure.
var addonsWithIdentity = []string{"ingressApplicationGateway", "azureKeyvaultSecretsProvider",
	"azurepolicy", "omsagent"}

// addonIdentity is the identity that AKS makes for an add-on
// (application-gateway-kubernetes-ingress#1616). It gets no role here: az assigns the roles that it
// needs.
func (cl *cluster) addonIdentity(addon string) arm.ID {
	return arm.ResourceID(cl.id.Subscription(), cl.nodeGroup.Name(), typeUserIdentity,
		strings.ToLower(addon)+"-"+cl.id.Name())
}

func hasAddon(body object, addon string) bool {
	return objectAt(body, "properties", "addonProfiles", addon)["enabled"] == true
}

// hasServicePrincipal reports whether a cluster works as a service principal, not as a managed
// identity.
func hasServicePrincipal(body object) bool {
	client := text(objectAt(body, "properties", "servicePrincipalProfile"), "clientId")
	return client != "" && client != "msi"
}

// clusterRemoved takes down what the cluster was made of. A brought network stays, with the routes
// its cloud provider wrote.
func (s *aks) clusterRemoved(r *resource) {
	cl := s.clusters[r.id.Key()]
	if cl == nil {
		return
	}
	delete(s.clusters, r.id.Key())
	delete(s.nodeGroups, cl.nodeGroup.Key())
	cl.provider.stop()
	s.leaveZone(cl, r)
	if arm.ID(cl.who.Resource).Equal(cl.id) {
		s.entra.identity.remove(cl.who)
	}
	for _, p := range append([]*pool(nil), cl.pools...) {
		s.removePool(cl, p)
	}
	// the managed table may be on brought subnets, which lose it
	if cl.table.Group().Equal(cl.nodeGroup) {
		s.disassociate(cl, cl.table)
	}
	if group := s.kernel.store.get(cl.nodeGroup); group != nil {
		_ = s.kernel.removeResource(group) // nothing in it can refuse
	}
}
