package aks

import (
	"fmt"
	"net/http"
	"slices"
	"strings"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/emulator/kernel"
	"routekeeper.dev/routekeeper/internal/lazy"
)

var poolName = lazy.Regexp(`^[a-z][a-z0-9]{0,11}$`)

// settlePool checks one agent pool profile. had is the previous one, nil for a new pool.
func settlePool(p, had, properties kernel.Object) *kernel.Failure {
	name := kernel.Text(p, "name")
	switch {
	case name == "":
		return kernel.Bad("InvalidParameter",
			"Required parameter agentPoolProfiles.name is missing (null).")
	case !poolName().MatchString(name):
		return kernel.Bad("InvalidParameter", "The value of parameter "+
			"agentPoolProfile.name is invalid. Error details: %s is not an agent pool name. "+
			"Please see https://aka.ms/aks-naming-rules for more details.", name)
	case kernel.Text(p, "osType") == "Windows" && len(name) > 6:
		return kernel.Bad("WindowsAgentPoolNameTooLong",
			"Windows agent pool name %s is longer than 6 characters.", name)
	}
	if f := settleMachines(p); f != nil {
		return f
	}
	for field, value := range had { // a field that was not sent stays
		if p[field] == nil &&
			!slices.Contains([]string{"nodeTaints", "nodeLabels", "tags", "provisioningState",
				"powerState"}, field) {
			p[field] = kernel.CloneValue(value)
		}
	}
	settleSpotPool(p)
	// 0 means the default
	if p["osDiskSizeGB"] != nil && kernel.NumberOf(p, "osDiskSizeGB") == 0 {
		delete(p, "osDiskSizeGB")
	}
	kernel.SetDefault(p, "vmSize", "Standard_D2s_v5")
	kernel.SetDefault(p, "osType", "Linux")
	kernel.SetDefault(p, "type", "VirtualMachineScaleSets")
	kernel.SetDefault(p, "count", 1)
	kernel.SetDefault(p, "orchestratorVersion", properties["kubernetesVersion"])
	// not the newest, so that an upgrade is possible
	kernel.SetDefault(p, "nodeImageVersion", nodeImages[1])
	kernel.SetDefault(p, "maxPods", defaultMaxPods(p, properties))
	if _, err := countOf(p); err != nil {
		return kernel.Bad("InvalidParameter",
			"The value of parameter agentPoolProfiles.count is invalid: %v.", p["count"])
	}
	plugin := kernel.Text(properties, "networkProfile", "networkPlugin")
	if had == nil && kernel.Text(p, "osType") == "Windows" && plugin != "azure" { // AKS#2839
		return kernel.Bad("AzureCNIOnlyForWindows",
			"Windows agent pools can only be added to AKS clusters using Azure-CNI.")
	}
	if n := kernel.NumberOf(p, "maxPods"); n < 10 || n > 250 {
		return kernel.Bad("InvalidParameter", "The value of parameter agentPoolProfile.maxPods "+
			"is invalid: %v. The minimum is 10 and the maximum is 250.", p["maxPods"])
	}
	if mode := kernel.Text(p, "podIPAllocationMode"); mode != "" && mode != "DynamicIndividual" &&
		mode != "StaticBlock" {
		return invalid("agentPoolProfile.podIPAllocationMode", mode)
	}
	if kernel.Text(p, "podSubnetID") != "" &&
		modeOf(kernel.ObjectAt(properties, "networkProfile")) != modeVNet {
		return invalid("agentPoolProfile.podSubnetID", p["podSubnetID"])
	}
	for _, field := range []string{"vmSize", "osType", "vnetSubnetID", "podSubnetID", "maxPods"} {
		if had != nil && !strings.EqualFold(fmt.Sprint(had[field]), fmt.Sprint(p[field])) {
			return unchangeable("properties." + field)
		}
	}
	return checkVersion(p, had, properties)
}

// defaultMaxPods returns what AKS gives a pool that names no maxPods (docs/azure.md).
func defaultMaxPods(p, properties kernel.Object) int {
	switch modeOf(kernel.ObjectAt(properties, "networkProfile")) {
	case modeKubenet:
		return 110
	case modeVNet:
		if kernel.Text(p, "podSubnetID") == "" {
			return 30
		}
		return 110
	case modeOverlay, modeNone:
	}
	return 250
}

// agentPools are the node pools of the clusters.
type agentPools struct{ *AKS }

// check checks a cluster's pools together.
func (s agentPools) check(id arm.ID, properties kernel.Object, isNew bool) *kernel.Failure {
	pools := kernel.ListAt(properties, "agentPoolProfiles")
	seen := map[string]bool{}
	systems := 0
	for _, p := range pools {
		if seen[kernel.Text(p, "name")] {
			// code [U]
			return kernel.Bad("InvalidParameter",
				"Agent pool name %s is used more than once.", kernel.Text(p, "name"))
		}
		seen[kernel.Text(p, "name")] = true
		if strings.EqualFold(kernel.Text(p, "mode"), "System") {
			systems++
		}
	}
	if systems == 0 {
		return kernel.Bad("MustDefineAtLeastOneSystemPool", "Must define at least one system pool.")
	}
	if most := mostPools(properties); len(pools) > most {
		return kernel.Bad("MaxAgentPoolCountReached",
			"The maximum number of agent pools %d is reached.", most)
	}
	if f := s.checks.subnets(id, properties, isNew); f != nil {
		return f
	}
	return s.checks.sizes(id, properties)
}

// mostPools returns how many pools a cluster can have: with an availability set only one.
func mostPools(properties kernel.Object) int {
	for _, p := range kernel.ListAt(properties, "agentPoolProfiles") {
		if kernel.Text(p, "type") == PoolAvailabilitySet {
			return 1
		}
	}
	return maxPools
}

// countOf reads a pool's count from any JSON number type.
func countOf(p kernel.Object) (int, error) {
	var n int
	_, err := fmt.Sscan(fmt.Sprint(p["count"]), &n)
	if err == nil && (n < 0 || n > maxPoolNodes) {
		err = fmt.Errorf("out of range")
	}
	return n, err
}

// mostNodes returns the largest number of nodes a pool can have.
func mostNodes(p kernel.Object) int {
	n, _ := countOf(p) // settlePool has checked it
	if p["enableAutoScaling"] == true {
		n = max(n, kernel.NumberOf(p, "maxCount"))
	}
	return n
}

// profileOf returns the profile of a cluster's pool, nil for none.
func profileOf(r *kernel.Resource, name string) kernel.Object {
	return kernel.Named(kernel.ListAt(r.Properties(), "agentPoolProfiles"), name)
}

func (s agentPools) show(r *kernel.Resource, p kernel.Object) {
	p["provisioningState"] = kernel.State(r)
	if cl := s.Clusters[r.ID.Key()]; cl != nil && isBusy(r) {
		run := cl.Pool(kernel.Text(p, "name"))
		switch {
		case run != nil && run.Doing != "" && (run.busy() || run.Until.IsZero()):
			p["provisioningState"] = run.Doing
		case cl.onlyPoolOperations(r):
			p["provisioningState"] = "Succeeded"
		}
	}
	if p["powerState"] = (kernel.Object{"code": powerOf(r)}); poolStopped(p) {
		p["powerState"], p["count"] = kernel.Object{"code": "Stopped"}, 0
	}
	delete(p, StoppedCount)
	showMachines(p)
	p["currentOrchestratorVersion"] = fullVersion(kernel.Text(p, "orchestratorVersion"))
}

// document returns a pool as a separate resource.
func (s agentPools) document(r *kernel.Resource, p kernel.Object, version string) kernel.Object {
	p = kernel.Clone(p)
	s.show(r, p)
	name := kernel.Text(p, "name")
	delete(p, "name")
	doc := kernel.Object{"id": string(r.ID.Child("agentPools", name)), "name": name,
		"type": arm.TypeCluster + "/agentPools", "properties": p}
	for _, f := range ownPoolFacts {
		f.Show(kernel.Sight{R: r, Doc: doc, At: doc, Version: version})
	}
	return doc
}

// call handles agent pools: they are part of their cluster's document.
func (s agentPools) call(c *kernel.Call, r *kernel.Resource) (kernel.Reply, *kernel.Failure) {
	pools := kernel.ListAt(r.Properties(), "agentPoolProfiles")
	if len(c.Path) == 9 {
		docs := make([]kernel.Object, len(pools))
		for i, p := range pools {
			docs[i] = s.document(r, p, c.Version)
		}
		return s.kernel.PageObjects(c, docs)
	}
	at := kernel.IndexOf(pools, c.Path[9])
	switch {
	case len(c.Path) > 10:
		return s.act(c, r, pools, at)
	case c.Method == http.MethodGet && at >= 0:
		return kernel.OK(s.document(r, pools[at], c.Version)), nil
	case c.Method == http.MethodPut:
		status := http.StatusOK
		if at < 0 {
			at, status = len(pools), http.StatusCreated
		}
		if f := s.put(c, r, pools, at); f != nil {
			s.kernel.Record(c, r.ID.Child("agentPools", c.Path[9]), "write", f)
			return kernel.Reply{}, f
		}
		s.kernel.Record(c, r.ID.Child("agentPools", c.Path[9]), "write", nil)
		return startedPool(s.kernel, c, r, s.Clusters[r.ID.Key()].Pool(c.Path[9]), kernel.Reply{
			Status: status, Header: map[string]string{},
			Body: kernel.Encode(s.document(r, profileOf(r, c.Path[9]), c.Version)),
		}), nil
	case c.Method == http.MethodDelete && at >= 0:
		return s.remove(c, r, pools, at)
	case c.Method == http.MethodDelete:
		return kernel.Reply{Status: http.StatusNoContent}, nil
	}
	return kernel.Reply{}, kernel.Fail(http.StatusNotFound, "NotFound", "Could not find the "+
		"agentpool: %s in subscription: %s, resourceGroup: %s, resourceName: %s.", c.Path[9],
		r.ID.Subscription(), r.ID.ResourceGroup(), r.ID.Name())
}

// StoppedCount is the field in which the document of a stopped pool keeps its number of nodes. A
// start restores it.
const StoppedCount = "routekeeper.stoppedCount"

func poolStopped(p kernel.Object) bool { return p[StoppedCount] != nil }

// powerPool stops or starts a pool if the document says so, and returns the name of the operation.
func powerPool(p, had kernel.Object) string {
	code := kernel.Text(p, "powerState", "code")
	delete(p, "powerState")
	switch {
	case code == "Stopped" && !poolStopped(had) && had != nil:
		p[StoppedCount], p["count"] = had["count"], 0
		return "Stopping"
	case code == "Running" && poolStopped(had):
		p["count"] = had[StoppedCount]
		delete(p, StoppedCount)
		return "Starting"
	case poolStopped(had):
		p[StoppedCount], p["count"] = had[StoppedCount], 0
	}
	return ""
}

// put replaces the pool at an index, or appends it. Unlike a PUT of the cluster, it associates
// no subnet with the table (AKS#1500).
func (s agentPools) put(c *kernel.Call, r *kernel.Resource, pools []kernel.Object,
	at int) *kernel.Failure {
	sent, f := kernel.DecodeObject(c.Body)
	if f == nil {
		f = s.checkChangeable(r, c.Path[9])
	}
	if f != nil {
		return f
	}
	s.kernel.KindOf(r.ID).Accept(sent)
	p := kernel.Object{}
	if sentProperties := kernel.ObjectAt(sent, "properties"); sentProperties != nil {
		p = kernel.Clone(sentProperties)
	}
	var had kernel.Object
	name, doing := c.Path[9], "Creating"
	if at < len(pools) {
		had, doing = pools[at], "Updating"
		name = kernel.Text(had, "name")
	} else {
		kernel.SetDefault(p, "mode", "User")
	}
	p["name"] = name
	properties := r.Properties()
	if f := settlePool(p, had, properties); f != nil {
		return f
	}
	if f := s.checkSubnet(r, p); f != nil {
		return f
	}
	all := append(pools[:at:at], append([]kernel.Object{p}, pools[min(at+1, len(pools)):]...)...)
	if f := s.check(r.ID, kernel.Object{"networkProfile": properties["networkProfile"],
		"agentPoolProfiles": kernel.Items(all)}, false); f != nil {
		return f
	}
	if had != nil && kernel.NumberOf(had, "count") != kernel.NumberOf(p, "count") {
		doing = "Scaling"
	}
	if d := powerPool(p, had); d != "" {
		doing = d
	}
	if upgrades(p, had) {
		doing = "Upgrading"
	}
	cl := s.Clusters[r.ID.Key()]
	cl.clearPoolStates()
	if f := s.nodes.setPool(cl, p, doing); f != nil {
		return f
	}
	if doing == "Upgrading" {
		if f := s.nodes.upgrade(cl, cl.Pool(name), p, s.kernel.OperationTime(c)); f != nil {
			return f
		}
	}
	storePools(s.kernel, r, all)
	occupyPool(s.kernel, c, r, cl.Pool(name), doing)
	s.nodes.nodesChanged(cl)
	return nil
}

// remove deletes a pool at the end of an operation: until then it is Deleting.
func (s agentPools) remove(c *kernel.Call, r *kernel.Resource, pools []kernel.Object,
	at int) (kernel.Reply, *kernel.Failure) {
	cl := s.Clusters[r.ID.Key()]
	run := cl.Pool(kernel.Text(pools[at], "name"))
	if run.busy() && run.Doing == "Deleting" {
		return s.kernel.AcceptedUntil(c, &kernel.Operation{Ends: run.Until}), nil
	}
	if f := s.checkChangeable(r, run.Name); f != nil {
		return kernel.Reply{}, f
	}
	id := r.ID.Child("agentPools", c.Path[9])
	if !slices.ContainsFunc(pools, func(p kernel.Object) bool {
		other := cl.Pool(kernel.Text(p, "name"))
		return other != run && !(other.busy() && other.Doing == "Deleting") &&
			strings.EqualFold(kernel.Text(p, "mode"), "System")
	}) {
		// wording [U]
		f := kernel.Bad("OperationNotAllowed",
			"The last system agent pool of a cluster cannot be deleted.")
		s.kernel.Record(c, id, "delete", f)
		return kernel.Reply{}, f
	}
	cl.clearPoolStates()
	s.kernel.Remember(r.ID)
	occupyPool(s.kernel, c, r, run, "Deleting")
	s.kernel.Record(c, id, "delete", nil)
	op := &kernel.Operation{Ends: run.Until, Failure: c.Failing()}
	switch {
	case op.Failure != nil:
	case run.busy():
		s.kernel.At(op.Ends, func() {
			if s.Clusters[cl.ID.Key()] == cl && run.Doing == "Deleting" {
				s.drop(cl, run)
			}
		})
	default:
		s.drop(cl, run)
		return kernel.Reply{Status: http.StatusNoContent}, nil
	}
	return s.kernel.AcceptedUntil(c, op), nil
}

func (s agentPools) drop(cl *cluster, p *pool) {
	s.nodes.removePool(cl, p)
	if r := s.kernel.Store.Get(cl.ID); r != nil {
		pools := kernel.ListAt(r.Properties(), "agentPoolProfiles")
		storePools(s.kernel, r, slices.DeleteFunc(pools, func(had kernel.Object) bool {
			return strings.EqualFold(kernel.Text(had, "name"), p.Name)
		}))
		s.kernel.Store.Changed(r)
	}
	s.nodes.nodesChanged(cl)
}

func storePools(k *kernel.Kernel, r *kernel.Resource, pools []kernel.Object) {
	k.Remember(r.ID)
	r.Properties()["agentPoolProfiles"] = kernel.Items(pools)
}
