package aks

import (
	"net/http"
	"slices"
	"strings"
	"time"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/emulator/kernel"
)

// isBusy reports whether an operation runs on a resource.
func isBusy(r *kernel.Resource) bool { return r.BusyUntil.After(time.Now()) }

// powerOf returns Running or Stopped.
func powerOf(r *kernel.Resource) string {
	if code := kernel.Text(r.Body, "properties", "powerState", "code"); code != "" {
		return code
	}
	return "Running"
}

// clusterBusy returns AKS's refusal of a write while an operation runs
// (azure-workload-identity#417, cilium#25944).
func (s *AKS) clusterBusy(r *kernel.Resource) *kernel.Failure {
	what, of := "operation", kernel.State(r)
	if cl := s.Clusters[r.ID.Key()]; cl != nil {
		var working []*pool
		for _, p := range cl.Pools {
			if p.Doing != "" {
				working = append(working, p)
			}
		}
		if len(working) == 1 && len(cl.Pools) > 1 ||
			len(working) == 1 && working[0].Doing != r.Doing {
			what, of = "agentpool operation", working[0].Name+" - "+working[0].Doing
		}
	}
	return kernel.Fail(http.StatusConflict, "OperationNotAllowed", "Operation is not allowed: "+
		"Another %s (%s) is in progress, please wait for it to finish before starting a new "+
		"operation. See https://aka.ms/aks-pending-operation for more details", what, of)
}

// checkChangeable refuses changes to a cluster that is busy or stopped.
func (s *AKS) checkChangeable(r *kernel.Resource) *kernel.Failure {
	if f := s.kernel.Busy(r.ID); f != nil {
		return f
	}
	if powerOf(r) == "Stopped" { // wording [U]
		return kernel.Bad("OperationNotAllowed", "Operation is not allowed: managed cluster %s "+
			"is in stopped state, no operations except for start are allowed.", r.ID.Name())
	}
	return nil
}

// checkChangeable refuses changes to a pool of a cluster that is busy or stopped. Operations on
// other pools do not matter, because AKS runs them in parallel (AKS#4522,
// terraform-provider-azurerm's PR 32682).
func (s agentPools) checkChangeable(r *kernel.Resource, name string) *kernel.Failure {
	cl := s.Clusters[r.ID.Key()]
	if p := cl.Pool(name); cl.onlyPoolOperations(r) && (p == nil || !p.busy()) {
		return nil
	}
	return s.AKS.checkChangeable(r)
}

// busy reports whether an operation runs on the pool alone.
func (p *pool) busy() bool { return p.Until.After(time.Now()) }

// onlyPoolOperations reports whether all operations that run are on single pools.
func (cl *cluster) onlyPoolOperations(r *kernel.Resource) bool {
	return slices.ContainsFunc(cl.Pools, func(p *pool) bool {
		return p.busy() && !p.Until.Before(r.BusyUntil)
	})
}

// occupyPool starts an operation on one pool. The cluster is busy as long as any of its pools is.
func occupyPool(k *kernel.Kernel, c *kernel.Call, r *kernel.Resource, p *pool, doing string) {
	others := r.BusyUntil
	k.Occupy(c, r, "Updating")
	p.Doing, p.Until = doing, r.BusyUntil
	if others.After(r.BusyUntil) {
		r.BusyUntil = others
	}
	k.At(p.Until, func() { k.Store.Changed(r) }) // the cluster shows the pool's state
}

// startedPool returns the answer of a PUT that started an operation on one pool.
func startedPool(k *kernel.Kernel, c *kernel.Call, r *kernel.Resource, p *pool,
	answer kernel.Reply) kernel.Reply {
	alone := *r
	alone.BusyUntil = p.Until
	return k.Started(c, &alone, answer)
}

// clearPoolStates clears the states that earlier operations set in the pools.
func (cl *cluster) clearPoolStates() {
	for _, p := range cl.Pools {
		if !p.busy() {
			p.Doing, p.Until = "", time.Time{}
		}
	}
}

// deleteCluster deletes a cluster at the end of an operation.
func (s *AKS) deleteCluster(c *kernel.Call, r *kernel.Resource) (kernel.Reply, *kernel.Failure,
	bool) {
	if s.kernel.OperationTime(c) == 0 && c.Failing() == nil {
		f := s.kernel.RemoveResource(r)
		s.kernel.Record(c, r.ID, "delete", f)
		// Azure answers 202 or 204, and azurerm takes no other answer.
		return kernel.Reply{Status: http.StatusNoContent}, f, true
	}
	if r.Deleting {
		return s.kernel.AcceptedUntil(c, &kernel.Operation{Ends: r.BusyUntil}), nil, true
	}
	if f := s.kernel.Busy(r.ID); f != nil {
		return kernel.Reply{}, f, true
	}
	s.kernel.Record(c, r.ID, "delete", nil)
	s.kernel.Occupy(c, r, "Deleting")
	op := &kernel.Operation{Ends: r.BusyUntil, Failure: r.Failed}
	if r.Failed == nil {
		r.Deleting = true
		s.kernel.At(op.Ends, func() {
			if s.kernel.Store.Get(r.ID) == r {
				op.Failure = s.kernel.RemoveResource(r)
			}
		})
	}
	return s.kernel.AcceptedUntil(c, op), nil, true
}

// resumeCluster ends the operation that was running on a cluster when the state was saved.
func (s *AKS) resumeCluster(cl *cluster) {
	r := s.kernel.Store.Get(cl.ID)
	if r == nil {
		return
	}
	s.kernel.At(r.BusyUntil, func() {
		if s.Clusters[cl.ID.Key()] != cl {
			return
		}
		if cl.Leaving {
			s.migrations.leaveTable(cl)
		}
		for _, p := range slices.Clone(cl.Pools) {
			if p.Doing == "Deleting" {
				s.pools.drop(cl, p)
			}
		}
		for _, p := range cl.Pools { // the surge nodes of an upgrade
			if count := kernel.NumberOf(profileOf(r, p.Name), "count"); len(p.Nodes) > count {
				s.nodes.dropSurge(cl, p, count)
			}
		}
		if r.Deleting {
			_ = s.kernel.RemoveResource(r) // nothing in it can refuse the delete
		}
	})
	s.nodes.nodesChanged(cl)
}

func versionsCall(c *kernel.Call) (kernel.Reply, *kernel.Failure, bool) {
	if len(c.Path) == 7 && strings.EqualFold(c.Path[3], "Microsoft.ContainerService") &&
		c.Method == http.MethodGet {
		switch strings.ToLower(c.Path[6]) {
		case "kubernetesversions":
			return kernel.OK(versionsDocument()), nil, true
		case "orchestrators": // older clients call it, for example az 2.45
			return kernel.OK(orchestratorsDocument("/" + strings.Join(c.Path, "/"))), nil, true
		}
	}
	return kernel.Reply{}, nil, false
}

// inCluster answers the actions on a cluster, and for its pools.
func (s *AKS) inCluster(c *kernel.Call, r *kernel.Resource, rest []string) (kernel.Reply,
	*kernel.Failure, bool) {
	action := strings.Join(rest, "/")
	_, renews := renewals[action]
	switch call := c.Method + " " + action; {
	case rest[0] == "agentpools" && len(rest) < 5:
		return kernel.Handled(s.pools.call(c, r))
	case renews && c.Method == http.MethodPost:
		return kernel.Handled(s.APIServers.renew(c, r, action))
	case call == "POST listclusterusercredential",
		call == "POST listclustermonitoringusercredential":
		return kernel.Handled(s.APIServers.credential(c, r, "clusterUser"))
	case call == "POST listclusteradmincredential":
		return kernel.Handled(s.APIServers.credential(c, r, "clusterAdmin"))
	case call == "POST runcommand": // no node can run the command; code [U]
		return kernel.Reply{}, kernel.Bad("KubernetesOperationError", "Run command is not "+
			"available: the nodes of cluster %s of this emulator run no programs.",
			r.ID.Name()), true
	case call == "POST abort":
		return kernel.Handled(s.abort(c, r))
	case call == "POST stop":
		return kernel.Handled(s.stopCluster(c, r))
	case call == "POST start":
		return kernel.Handled(s.startCluster(c, r))
	case call == "GET upgradeprofiles/default":
		return upgradeProfile(r), nil, true
	case call == "GET availableagentpoolversions":
		return availableVersions(r), nil, true
	}
	return kernel.Reply{}, nil, false
}

// abort ends the operation on a cluster or one of its pools. Its changes so far stay.
func (s *AKS) abort(c *kernel.Call, r *kernel.Resource) (kernel.Reply, *kernel.Failure) {
	if r.Deleting {
		return kernel.Reply{}, s.clusterBusy(r)
	}
	s.kernel.Record(c, r.ID, "abort/action", nil)
	answer := s.kernel.Accepted(c, nil)
	if answer.Status == http.StatusAccepted {
		answer.Body = s.kernel.Render(r, c.Version)
	}
	r.BusyUntil, r.Doing = time.Time{}, ""
	if cl := s.Clusters[r.ID.Key()]; cl != nil {
		for _, p := range cl.Pools {
			p.Until = time.Time{}
		}
		cl.clearPoolStates()
	}
	s.kernel.Store.Changed(r)
	return answer, nil
}

// stopCluster deletes the nodes. The control plane stops as well, so the routes stay [U].
func (s *AKS) stopCluster(c *kernel.Call, r *kernel.Resource) (kernel.Reply, *kernel.Failure) {
	f := s.checkChangeable(r)
	s.kernel.Record(c, r.ID, "stop/action", f)
	if f != nil {
		return kernel.Reply{}, f
	}
	cl := s.Clusters[r.ID.Key()]
	cl.provider.stop()
	cl.clearPoolStates()
	for _, p := range cl.Pools {
		s.nodes.shrink(cl, p, 0)
		_ = s.nodes.storeScaleSet(cl, p) // it only has fewer instances
	}
	r.Properties()["powerState"] = kernel.Object{"code": "Stopped"}
	s.kernel.Occupy(c, r, "Stopping")
	return s.kernel.Accepted(c, nil), nil
}

// startCluster creates nodes again, with new names, addresses and pod CIDRs.
func (s *AKS) startCluster(c *kernel.Call, r *kernel.Resource) (kernel.Reply, *kernel.Failure) {
	f := s.kernel.Busy(r.ID)
	s.kernel.Record(c, r.ID, "start/action", f)
	if f != nil {
		return kernel.Reply{}, f
	}
	if powerOf(r) == "Running" {
		return s.kernel.Accepted(c, nil), nil
	}
	cl := s.Clusters[r.ID.Key()]
	cl.clearPoolStates()
	for _, p := range kernel.ListAt(r.Properties(), "agentPoolProfiles") {
		if f := s.nodes.setPool(cl, p, "Starting"); f != nil {
			return kernel.Reply{}, f
		}
	}
	r.Properties()["powerState"] = kernel.Object{"code": "Running"}
	s.kernel.Occupy(c, r, "Starting")
	cl.provider.resume()
	return s.kernel.Accepted(c, nil), nil
}

func upgradeList(version string) []kernel.Object {
	out := []kernel.Object{}
	for _, v := range upgradesFrom(version) {
		out = append(out, kernel.Object{"kubernetesVersion": v})
	}
	return out
}

func upgradeProfile(r *kernel.Resource) kernel.Reply {
	properties := r.Properties()
	profile := func(name, version string) kernel.Object {
		return kernel.Object{"name": name, "osType": "Linux",
			"kubernetesVersion": fullVersion(version),
			"upgrades":          upgradeList(version)}
	}
	pools := []kernel.Object{}
	for _, p := range kernel.ListAt(properties, "agentPoolProfiles") {
		pools = append(pools,
			profile(kernel.Text(p, "name"), kernel.Text(p, "orchestratorVersion")))
	}
	return kernel.OK(kernel.Object{"id": string(r.ID) + "/upgradeProfiles/default",
		"name": "default",
		"type": arm.TypeCluster + "/upgradeProfiles", "properties": kernel.Object{
			"controlPlaneProfile": profile("master", kernel.Text(properties, "kubernetesVersion")),
			"agentPoolProfiles":   pools,
		}})
}

func availableVersions(r *kernel.Resource) kernel.Reply {
	versions := []kernel.Object{}
	for i, v := range KubernetesVersions {
		versions = append(versions,
			kernel.Object{"kubernetesVersion": v, "default": i == 0, "isPreview": false})
	}
	return kernel.OK(kernel.Object{"id": string(r.ID) + "/availableAgentPoolVersions",
		"name": "default",
		"type": arm.TypeCluster + "/availableAgentPoolVersions", "properties": kernel.Object{
			"agentPoolVersions": versions}})
}

// versionsDocument returns the versions of Kubernetes, each with the versions it can be upgraded
// to.
func versionsDocument() kernel.Object {
	values := []kernel.Object{}
	for _, v := range KubernetesVersions {
		minor := v[:strings.LastIndexByte(v, '.')]
		i := slices.IndexFunc(values, func(o kernel.Object) bool { return o["version"] == minor })
		if i < 0 {
			i = len(values)
			values = append(values, kernel.Object{"version": minor, "isDefault": i == 0,
				"isPreview": false, "patchVersions": kernel.Object{}, "capabilities": kernel.Object{
					"supportPlan": []string{"KubernetesOfficial"}}})
		}
		kernel.ObjectAt(values[i], "patchVersions")[v] = kernel.Object{"upgrades": upgradesFrom(v)}
	}
	return kernel.Object{"values": values}
}

// orchestratorsDocument returns the same versions as one list.
func orchestratorsDocument(id string) kernel.Object {
	all := []kernel.Object{}
	for i, v := range KubernetesVersions {
		upgrades := []kernel.Object{}
		for _, to := range upgradesFrom(v) {
			upgrades = append(upgrades,
				kernel.Object{"orchestratorType": "Kubernetes", "orchestratorVersion": to})
		}
		all = append(all, kernel.Object{"orchestratorType": "Kubernetes", "orchestratorVersion": v,
			"default": i == 0, "upgrades": upgrades})
	}
	return kernel.Object{"id": id, "name": "default",
		"type": "Microsoft.ContainerService/locations/orchestrators", "properties": kernel.Object{
			"orchestrators": all}}
}

// showOutbound adds the nodes' egress, if AKS manages it.
func showOutbound(cl *cluster, profile kernel.Object) {
	switch kernel.Text(profile, "outboundType") {
	case "loadBalancer":
		balancer := kernel.ObjectAt(profile, "loadBalancerProfile")
		if balancer == nil {
			balancer = kernel.Object{"managedOutboundIPs": kernel.Object{"count": 1}}
			profile["loadBalancerProfile"] = balancer
		}
		ips, _ := cl.outbound(profile)
		links := kernel.Links(ips)
		if len(links) > 0 { // overwrites what a client has sent back
			balancer["effectiveOutboundIPs"] = links
		}
		kernel.SetDefault(balancer, "effectiveOutboundIPs", links)
	case "managedNATGateway":
		gateway := kernel.ObjectAt(profile, "natGatewayProfile")
		if gateway == nil {
			gateway = kernel.Object{"managedOutboundIPProfile": kernel.Object{"count": 1}}
			profile["natGatewayProfile"] = gateway
		}
		kernel.SetDefault(gateway, "idleTimeoutInMinutes", 4)
		gateway["effectiveOutboundIPs"] = kernel.Links(
			cl.natAddresses(profile)) // overwrites what a client has sent back
	}
}

// act handles the calls below a pool: upgrade profile, node image upgrade, and deletion of
// machines.
func (s agentPools) act(c *kernel.Call, r *kernel.Resource, pools []kernel.Object,
	at int) (kernel.Reply, *kernel.Failure) {
	id := r.ID.Child("agentPools", c.Path[9])
	if at < 0 {
		return kernel.Reply{}, s.kernel.Missing(id)
	}
	had := pools[at]
	what := c.Method + " " + strings.ToLower(strings.Join(c.Path[10:], "/"))
	if what == "GET upgradeprofiles/default" {
		return kernel.OK(kernel.Object{"id": string(id) + "/upgradeProfiles/default",
			"name": "default",
			"type": arm.TypeCluster + "/agentPools/upgradeProfiles", "properties": kernel.Object{
				"kubernetesVersion": had["orchestratorVersion"], "osType": had["osType"],
				"upgrades":               upgradeList(kernel.Text(had, "orchestratorVersion")),
				"latestNodeImageVersion": nodeImages[0],
			}}), nil
	}
	if cl := s.Clusters[r.ID.Key()]; what == "GET machines" {
		return s.kernel.PageObjects(c, machinesOf(cl.Pool(kernel.Text(had, "name")), id))
	}
	if what == "POST abort" {
		answer, f := s.abort(c, r)
		if answer.Status == http.StatusAccepted {
			answer.Body = kernel.Encode(s.document(r, had, c.Version))
		}
		return answer, f
	}
	if what != "POST upgradenodeimageversion" && what != "POST deletemachines" {
		return kernel.Reply{}, kernel.NotFound(c)
	}
	if f := s.checkChangeable(r, kernel.Text(had, "name")); f != nil {
		return kernel.Reply{}, f
	}
	cl, p := s.Clusters[r.ID.Key()], kernel.Clone(had)
	run := cl.Pool(kernel.Text(p, "name"))
	cl.clearPoolStates()
	verb := "upgradeNodeImageVersion/action"
	if what == "POST upgradenodeimageversion" {
		p["nodeImageVersion"] = nodeImages[0]
		if upgrades(p, had) {
			run.Doing = "UpgradingNodeImageVersion"
			if f := s.nodes.upgrade(cl, run, p, s.kernel.OperationTime(c)); f != nil {
				return kernel.Reply{}, f
			}
		}
	} else {
		verb, run.Doing = "deleteMachines/action", "DeletingMachines"
		sent, f := kernel.DecodeObject(c.Body)
		if f != nil {
			return kernel.Reply{}, f
		}
		for _, name := range kernel.List(sent, "machineNames") {
			if of, n := cl.findNode(name); n != nil && of == run {
				s.nodes.removeNode(cl, run, n)
			}
		}
		p["count"] = len(run.Nodes)
		_ = s.nodes.storeScaleSet(cl, run) // it only has fewer instances
	}
	pools[at] = p
	storePools(s.kernel, r, pools)
	occupyPool(s.kernel, c, r, run, run.Doing)
	s.nodes.nodesChanged(cl)
	s.kernel.Record(c, id, verb, nil)
	return s.kernel.Accepted(c, kernel.Encode(s.document(r, p, c.Version))), nil
}
