package emulator

import (
	"net/http"
	"slices"
	"strings"
	"time"

	"routekeeper.dev/routekeeper/internal/arm"
)

// isBusy reports whether an operation runs on a resource.
func (s *aks) isBusy(r *resource) bool { return r.busyUntil.After(time.Now()) }

// powerOf is Running or Stopped.
func powerOf(r *resource) string {
	if code := text(objectAt(r.body, "properties", "powerState"), "code"); code != "" {
		return code
	}
	return "Running"
}

// clusterBusy is AKS's refusal of a write while an operation runs (azure-workload-identity#417,
// cilium#25944).
func (s *aks) clusterBusy(r *resource) *failure {
	what, of := "operation", state(r)
	if cl := s.clusters[r.id.Key()]; cl != nil {
		var working []*pool
		for _, p := range cl.pools {
			if p.doing != "" {
				working = append(working, p)
			}
		}
		if len(working) == 1 && len(cl.pools) > 1 ||
			len(working) == 1 && working[0].doing != r.doing {
			what, of = "agentpool operation", working[0].name+" - "+working[0].doing
		}
	}
	return fail(http.StatusConflict, "OperationNotAllowed", "Operation is not allowed: Another "+
		"%s (%s) is in progress, please wait for it to finish before starting a new operation. "+
		"See https://aka.ms/aks-pending-operation for more details", what, of)
}

// changeable refuses changes to a cluster that is busy or stopped.
func (s *aks) changeable(r *resource) *failure {
	if f := s.kernel.busy(r.id); f != nil {
		return f
	}
	if powerOf(r) == "Stopped" { // wording [U]
		return fail(http.StatusBadRequest, "OperationNotAllowed", "Operation is not allowed: "+
			"managed cluster %s is in stopped state, no operations except for start are allowed.",
			r.id.Name())
	}
	return nil
}

// idle forgets what the pools were doing before the operation that begins.
func (cl *cluster) idle() {
	for _, p := range cl.pools {
		p.doing = ""
	}
}

// deleteCluster deletes a cluster at the end of an operation.
func (s *aks) deleteCluster(c *call, r *resource) (reply, *failure, bool) {
	if s.kernel.operationTime(c) == 0 {
		return reply{}, nil, false
	}
	if r.deleting {
		return s.kernel.acceptedUntil(c, &operation{ends: r.busyUntil}), nil, true
	}
	if f := s.kernel.busy(r.id); f != nil {
		return reply{}, f, true
	}
	s.kernel.record(c, r.id, "delete", nil)
	s.kernel.occupy(c, r, "Deleting")
	op := &operation{ends: r.busyUntil, failure: r.failed}
	if r.failed == nil {
		r.deleting = true
		s.kernel.at(op.ends, func() {
			if s.kernel.store.get(r.id) == r {
				op.failure = s.kernel.removeResource(r)
			}
		})
	}
	return s.kernel.acceptedUntil(c, op), nil, true
}

// resumeCluster ends what was under way on a cluster when the state was kept.
func (s *aks) resumeCluster(cl *cluster) {
	r := s.kernel.store.get(cl.id)
	if r == nil {
		return
	}
	s.kernel.at(r.busyUntil, func() {
		if s.clusters[cl.id.Key()] != cl {
			return
		}
		if cl.leaving {
			s.leaveTable(cl)
		}
		for _, p := range cl.pools { // the surge nodes of an upgrade
			if count := numberOf(profileOf(r, p.name), "count"); len(p.nodes) > count {
				s.dropSurge(cl, p, count)
			}
		}
		if r.deleting {
			_ = s.kernel.removeResource(r) // nothing in it can refuse
		}
	})
	s.nodesChanged(cl)
}

// clusterCall answers the actions on a cluster, and what can be asked of one.
func (s *aks) clusterCall(c *call) (reply, *failure, bool) {
	n := len(c.path)
	if n == 7 && strings.EqualFold(c.path[3], "Microsoft.ContainerService") &&
		c.method == http.MethodGet {
		switch strings.ToLower(c.path[6]) {
		case "kubernetesversions":
			return ok(versionsDocument()), nil, true
		case "orchestrators": // what older clients ask, az 2.45 among them
			return ok(orchestratorsDocument("/" + strings.Join(c.path, "/"))), nil, true
		}
	}
	if n < 9 || n > 10 || !strings.EqualFold(c.path[5], "Microsoft.ContainerService") ||
		!strings.EqualFold(c.path[6], "managedClusters") {
		return reply{}, nil, false
	}
	id := arm.ID("/" + strings.Join(c.path[:8], "/"))
	var answer func(*call, *resource) (reply, *failure)
	switch c.method + " " + strings.ToLower(strings.Join(c.path[8:], "/")) {
	case "POST listclusterusercredential", "POST listclustermonitoringusercredential":
		answer = s.credential("clusterUser")
	case "POST listclusteradmincredential":
		answer = s.credential("clusterAdmin")
	case "POST runcommand":
		// there is nothing to run it on; code [U]
		answer = func(c *call, r *resource) (reply, *failure) {
			return reply{}, fail(http.StatusBadRequest, "KubernetesOperationError",
				"Run command is not available: the nodes of cluster %s of this local Azure run "+
					"nothing.", r.id.Name())
		}
	case "POST abort":
		answer = s.abort
	case "POST stop":
		answer = s.stopCluster
	case "POST start":
		answer = s.startCluster
	case "GET upgradeprofiles/default":
		answer = s.upgradeProfile
	case "GET availableagentpoolversions":
		answer = availableVersions
	case "GET agentpools", "PUT agentpools":
		return reply{}, nil, false
	default:
		return reply{}, nil, false
	}
	r := s.kernel.store.get(id)
	if r == nil {
		return reply{}, s.kernel.missing(id), true
	}
	a, f := answer(c, r)
	return a, f, true
}

// abort ends the operation that runs on a cluster or one of its pools: what it has done stays.
func (s *aks) abort(c *call, r *resource) (reply, *failure) {
	if r.deleting {
		return reply{}, s.clusterBusy(r)
	}
	s.kernel.record(c, r.id, "abort/action", nil)
	answer := s.kernel.accepted(c, nil)
	if answer.status == http.StatusAccepted {
		answer.body = s.kernel.render(r, c.version)
	}
	r.busyUntil, r.doing = time.Time{}, ""
	if cl := s.clusters[r.id.Key()]; cl != nil {
		cl.idle()
	}
	s.kernel.store.changed(r)
	return answer, nil
}

// stopCluster takes the nodes away. The control plane stops as well, so the routes stay [U].
func (s *aks) stopCluster(c *call, r *resource) (reply, *failure) {
	f := s.changeable(r)
	s.kernel.record(c, r.id, "stop/action", f)
	if f != nil {
		return reply{}, f
	}
	cl := s.clusters[r.id.Key()]
	cl.provider.stop()
	cl.idle()
	for _, p := range cl.pools {
		for len(p.nodes) > 0 {
			s.removeNode(cl, p, p.nodes[len(p.nodes)-1])
		}
		_ = s.storeScaleSet(cl, p) // it only has fewer instances
	}
	objectAt(r.body, "properties")["powerState"] = object{"code": "Stopped"}
	s.kernel.occupy(c, r, "Stopping")
	return s.kernel.accepted(c, nil), nil
}

// startCluster brings nodes back: new ones, with new names, addresses and pod CIDRs.
func (s *aks) startCluster(c *call, r *resource) (reply, *failure) {
	f := s.kernel.busy(r.id)
	s.kernel.record(c, r.id, "start/action", f)
	if f != nil {
		return reply{}, f
	}
	if powerOf(r) == "Running" {
		return s.kernel.accepted(c, nil), nil
	}
	cl := s.clusters[r.id.Key()]
	cl.idle()
	for _, p := range listAt(objectAt(r.body, "properties"), "agentPoolProfiles") {
		if f := s.setPool(cl, p, "Starting"); f != nil {
			return reply{}, f
		}
	}
	objectAt(r.body, "properties")["powerState"] = object{"code": "Running"}
	s.kernel.occupy(c, r, "Starting")
	cl.provider.resume()
	return s.kernel.accepted(c, nil), nil
}

func upgradeList(version string) []object {
	out := []object{}
	for _, v := range upgradesFrom(version) {
		out = append(out, object{"kubernetesVersion": v})
	}
	return out
}

func (s *aks) upgradeProfile(c *call, r *resource) (reply, *failure) {
	properties := objectAt(r.body, "properties")
	profile := func(name, version string) object {
		return object{"name": name, "osType": "Linux", "kubernetesVersion": fullVersion(version),
			"upgrades": upgradeList(version)}
	}
	pools := []object{}
	for _, p := range listAt(properties, "agentPoolProfiles") {
		pools = append(pools, profile(text(p, "name"), text(p, "orchestratorVersion")))
	}
	return ok(object{"id": string(r.id) + "/upgradeProfiles/default", "name": "default",
		"type": arm.TypeCluster + "/upgradeProfiles", "properties": object{
			"controlPlaneProfile": profile("master", text(properties, "kubernetesVersion")),
			"agentPoolProfiles":   pools,
		}}), nil
}

func availableVersions(c *call, r *resource) (reply, *failure) {
	versions := []object{}
	for i, v := range kubernetesVersions {
		versions = append(versions, object{"kubernetesVersion": v, "default": i == 0,
			"isPreview": false})
	}
	return ok(object{"id": string(r.id) + "/availableAgentPoolVersions", "name": "default",
		"type": arm.TypeCluster + "/availableAgentPoolVersions", "properties": object{
			"agentPoolVersions": versions}}), nil
}

// versionsDocument is what a location offers, by minor version.
func versionsDocument() object {
	values := []object{}
	for _, v := range kubernetesVersions {
		minor := v[:strings.LastIndexByte(v, '.')]
		i := slices.IndexFunc(values, func(o object) bool { return o["version"] == minor })
		if i < 0 {
			i = len(values)
			values = append(values, object{"version": minor, "isDefault": i == 0,
				"isPreview": false, "patchVersions": object{}, "capabilities": object{
					"supportPlan": []string{"KubernetesOfficial"}}})
		}
		objectAt(values[i], "patchVersions")[v] = object{"upgrades": upgradesFrom(v)}
	}
	return object{"values": values}
}

// orchestratorsDocument is the same as one list.
func orchestratorsDocument(id string) object {
	all := []object{}
	for i, v := range kubernetesVersions {
		upgrades := []object{}
		for _, to := range upgradesFrom(v) {
			upgrades = append(upgrades, object{"orchestratorType": "Kubernetes",
				"orchestratorVersion": to})
		}
		all = append(all, object{"orchestratorType": "Kubernetes", "orchestratorVersion": v,
			"default": i == 0, "upgrades": upgrades})
	}
	return object{"id": id, "name": "default",
		"type": "Microsoft.ContainerService/locations/orchestrators", "properties": object{
			"orchestrators": all}}
}

// showOutbound adds how the nodes reach the Internet, where AKS sees to it.
func showOutbound(r *resource, profile object, nodeGroup string) {
	// the address itself is not there
	address := object{
		"id": string(arm.ResourceID(r.id.Subscription(), nodeGroup, typePublicIP, "outbound"))}
	switch text(profile, "outboundType") {
	case "loadBalancer":
		balancer := objectAt(profile, "loadBalancerProfile")
		if balancer == nil {
			balancer = object{"managedOutboundIPs": object{"count": 1}}
			profile["loadBalancerProfile"] = balancer
		}
		setDefault(balancer, "effectiveOutboundIPs", []any{address})
	case "managedNATGateway":
		gateway := objectAt(profile, "natGatewayProfile")
		if gateway == nil {
			gateway = object{"managedOutboundIPProfile": object{"count": 1}}
			profile["natGatewayProfile"] = gateway
		}
		setDefault(gateway, "idleTimeoutInMinutes", 4)
		setDefault(gateway, "effectiveOutboundIPs", []any{address})
	}
}

// poolAction handles what is below a pool: its upgrade profile, new node images, and machines to
// delete.
func (s *aks) poolAction(c *call, r *resource, pools []object, at int) (reply, *failure) {
	id := r.id.Child("agentPools", c.path[9])
	if at < 0 {
		return reply{}, s.kernel.missing(id)
	}
	had := pools[at]
	what := c.method + " " + strings.ToLower(strings.Join(c.path[10:], "/"))
	if what == "GET upgradeprofiles/default" {
		return ok(object{"id": string(id) + "/upgradeProfiles/default", "name": "default",
			"type": arm.TypeCluster + "/agentPools/upgradeProfiles", "properties": object{
				"kubernetesVersion": had["orchestratorVersion"], "osType": had["osType"],
				"upgrades":               upgradeList(text(had, "orchestratorVersion")),
				"latestNodeImageVersion": nodeImages[0],
			}}), nil
	}
	if what == "POST abort" {
		answer, f := s.abort(c, r)
		if answer.status == http.StatusAccepted {
			answer.body = encode(s.poolDocument(r, had, c.version))
		}
		return answer, f
	}
	if what != "POST upgradenodeimageversion" && what != "POST deletemachines" {
		return reply{}, notFound(c)
	}
	if f := s.changeable(r); f != nil {
		return reply{}, f
	}
	cl, p := s.clusters[r.id.Key()], clone(had)
	run := cl.pool(text(p, "name"))
	cl.idle()
	verb := "upgradeNodeImageVersion/action"
	if what == "POST upgradenodeimageversion" {
		p["nodeImageVersion"] = nodeImages[0]
		if upgrades(p, had) {
			run.doing = "UpgradingNodeImageVersion"
			if f := s.upgrade(cl, run, p, s.kernel.operationTime(c)); f != nil {
				return reply{}, f
			}
		}
	} else {
		verb, run.doing = "deleteMachines/action", "DeletingMachines"
		sent, f := decodeObject(c.body)
		if f != nil {
			return reply{}, f
		}
		for _, name := range list(sent, "machineNames") {
			if of, n := cl.findNode(name); n != nil && of == run {
				s.removeNode(cl, run, n)
			}
		}
		p["count"] = len(run.nodes)
		_ = s.storeScaleSet(cl, run) // it only has fewer instances
	}
	pools[at] = p
	s.storePools(c, r, pools)
	s.nodesChanged(cl)
	s.kernel.record(c, id, verb, nil)
	return s.kernel.accepted(c, encode(s.poolDocument(r, p, c.version))), nil
}
