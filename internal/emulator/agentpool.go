package emulator

import (
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"

	"routekeeper.dev/routekeeper/internal/arm"
)

var poolName = regexp.MustCompile(`^[a-z][a-z0-9]{0,11}$`)

// settlePool checks one agent pool profile. had is what it was, nil for a new pool.
func settlePool(p, had, properties object) *failure {
	name := text(p, "name")
	switch {
	case name == "":
		return fail(http.StatusBadRequest, "InvalidParameter",
			"Required parameter agentPoolProfiles.name is missing (null).")
	case !poolName.MatchString(name):
		return fail(http.StatusBadRequest, "InvalidParameter", "The value of parameter "+
			"agentPoolProfile.name is invalid. Error details: %s is no agent pool name. Please "+
			"see https://aka.ms/aks-naming-rules for more details.", name)
	case text(p, "osType") == "Windows" && len(name) > 6:
		return fail(http.StatusBadRequest, "WindowsAgentPoolNameTooLong",
			"Windows agent pool name %s is longer than 6 characters.", name)
	}
	if f := settleMachines(p); f != nil {
		return f
	}
	for field, value := range had { // what is left out stays
		if p[field] == nil &&
			!slices.Contains([]string{"nodeTaints", "nodeLabels", "tags", "provisioningState",
				"powerState"}, field) {
			p[field] = cloneValue(value)
		}
	}
	settleSpotPool(p)
	if p["osDiskSizeGB"] != nil && numberOf(p, "osDiskSizeGB") == 0 { // 0 asks for the default
		delete(p, "osDiskSizeGB")
	}
	setDefault(p, "vmSize", "Standard_D2s_v5")
	setDefault(p, "osType", "Linux")
	setDefault(p, "type", "VirtualMachineScaleSets")
	setDefault(p, "count", 1)
	setDefault(p, "orchestratorVersion", properties["kubernetesVersion"])
	// not the newest, so that there is one to upgrade to
	setDefault(p, "nodeImageVersion", nodeImages[1])
	setDefault(p, "maxPods", defaultMaxPods(p, properties))
	if _, err := countOf(p); err != nil {
		return fail(http.StatusBadRequest, "InvalidParameter",
			"The value of parameter agentPoolProfiles.count is invalid: %v.", p["count"])
	}
	plugin := text(objectAt(properties, "networkProfile"), "networkPlugin")
	if had == nil && text(p, "osType") == "Windows" && plugin != "azure" { // AKS#2839
		return fail(http.StatusBadRequest, "AzureCNIOnlyForWindows",
			"Windows agent pools can only be added to AKS clusters using Azure-CNI.")
	}
	if n := numberOf(p, "maxPods"); n < 10 || n > 250 {
		return fail(http.StatusBadRequest, "InvalidParameter", "The value of parameter "+
			"agentPoolProfile.maxPods is invalid: %v. The minimum is 10 and the maximum is 250.",
			p["maxPods"])
	}
	if mode := text(p, "podIPAllocationMode"); mode != "" && mode != "DynamicIndividual" &&
		mode != "StaticBlock" {
		return invalid("agentPoolProfile.podIPAllocationMode", mode)
	}
	if text(p, "podSubnetID") != "" && modeOf(objectAt(properties, "networkProfile")) != modeVNet {
		return invalid("agentPoolProfile.podSubnetID", p["podSubnetID"])
	}
	for _, field := range []string{"vmSize", "osType", "vnetSubnetID", "podSubnetID", "maxPods"} {
		if had != nil && !strings.EqualFold(fmt.Sprint(had[field]), fmt.Sprint(p[field])) {
			return unchangeable("properties." + field)
		}
	}
	return checkVersion(p, had, properties)
}

// defaultMaxPods is what AKS gives a pool that names no maxPods (AZURE.md).
func defaultMaxPods(p, properties object) int {
	switch modeOf(objectAt(properties, "networkProfile")) {
	case modeKubenet:
		return 110
	case modeVNet:
		if text(p, "podSubnetID") == "" {
			return 30
		}
	}
	return 250
}

// checkPools checks a cluster's pools together.
func (s *aks) checkPools(id arm.ID, properties object, isNew bool) *failure {
	pools := listAt(properties, "agentPoolProfiles")
	seen := map[string]bool{}
	systems := 0
	for _, p := range pools {
		if seen[text(p, "name")] {
			// code [U]
			return fail(http.StatusBadRequest, "InvalidParameter",
				"Agent pool name %s is used more than once.", text(p, "name"))
		}
		seen[text(p, "name")] = true
		if strings.EqualFold(text(p, "mode"), "System") {
			systems++
		}
	}
	if systems == 0 {
		return fail(http.StatusBadRequest, "MustDefineAtLeastOneSystemPool",
			"Must define at least one system pool.")
	}
	most := maxPools
	if slices.ContainsFunc(pools, func(p object) bool {
		return text(p, "type") == poolAvailabilitySet
	}) {
		most = 1
	}
	if len(pools) > most {
		return fail(http.StatusBadRequest, "MaxAgentPoolCountReached",
			"The maximum number of agent pools %d is reached.", most)
	}
	if f := s.checkSubnets(id, properties, isNew); f != nil {
		return f
	}
	return s.checkSizes(id, properties)
}

// countOf reads a pool's count, however it came.
func countOf(p object) (int, error) {
	var n int
	_, err := fmt.Sscan(fmt.Sprint(p["count"]), &n)
	if err == nil && (n < 0 || n > maxPoolNodes) {
		err = fmt.Errorf("out of range")
	}
	return n, err
}

// mostNodes is how many nodes a pool can come to have.
func mostNodes(p object) int {
	n, _ := countOf(p) // checked when it was settled
	if p["enableAutoScaling"] == true {
		n = max(n, numberOf(p, "maxCount"))
	}
	return n
}

// numberOf reads a whole number, however it came; 0 when it is none.
func numberOf(o object, field string) int {
	var n int
	_, _ = fmt.Sscan(fmt.Sprint(o[field]), &n) // no number: 0
	return n
}

func profileOf(r *resource, name string) object {
	for _, p := range listAt(objectAt(r.body, "properties"), "agentPoolProfiles") {
		if strings.EqualFold(text(p, "name"), name) {
			return p
		}
	}
	return nil
}

func (s *aks) showPool(r *resource, p object) {
	p["provisioningState"] = state(r)
	if cl := s.clusters[r.id.Key()]; cl != nil && s.isBusy(r) {
		if run := cl.pool(text(p, "name")); run != nil && run.doing != "" {
			p["provisioningState"] = run.doing
		}
	}
	if p["powerState"] = (object{"code": powerOf(r)}); poolStopped(p) {
		p["powerState"], p["count"] = object{"code": "Stopped"}, 0
	}
	delete(p, stoppedCount)
	showMachines(p)
	p["currentOrchestratorVersion"] = fullVersion(text(p, "orchestratorVersion"))
}

// poolDocument is a pool as a resource of its own.
func (s *aks) poolDocument(r *resource, p object, version string) object {
	p = clone(p)
	s.showPool(r, p)
	name := text(p, "name")
	delete(p, "name")
	doc := object{"id": string(r.id.Child("agentPools", name)), "name": name,
		"type": arm.TypeCluster + "/agentPools", "properties": p}
	for _, f := range ownPoolFacts {
		f.show(sight{r: r, doc: doc, at: doc, version: version})
	}
	return doc
}

// agentPoolCall handles agent pools: they are part of their cluster's document.
func (s *aks) agentPoolCall(c *call) (reply, *failure, bool) {
	n := len(c.path)
	if n < 9 || n > 12 || !strings.EqualFold(c.path[6], "managedClusters") ||
		!strings.EqualFold(c.path[8], "agentPools") {
		return reply{}, nil, false
	}
	id := arm.ID("/" + strings.Join(c.path[:8], "/"))
	r := s.kernel.store.get(id)
	if r == nil {
		return reply{}, s.kernel.missing(id), true
	}
	pools := listAt(objectAt(r.body, "properties"), "agentPoolProfiles")
	if n == 9 {
		docs := make([]object, len(pools))
		for i, p := range pools {
			docs[i] = s.poolDocument(r, p, c.version)
		}
		answer, f := s.kernel.page(c, docs, nil)
		return answer, f, true
	}
	at := slices.IndexFunc(pools, func(p object) bool {
		return strings.EqualFold(text(p, "name"), c.path[9])
	})
	switch {
	case n > 10:
		answer, f := s.poolAction(c, r, pools, at)
		return answer, f, true
	case c.method == http.MethodGet && at >= 0:
		return ok(s.poolDocument(r, pools[at], c.version)), nil, true
	case c.method == http.MethodPut:
		status := http.StatusOK
		if at < 0 {
			at, status = len(pools), http.StatusCreated
		}
		if f := s.putPool(c, r, pools, at); f != nil {
			s.kernel.record(c, r.id.Child("agentPools", c.path[9]), "write", f)
			return reply{}, f, true
		}
		s.kernel.record(c, r.id.Child("agentPools", c.path[9]), "write", nil)
		return s.kernel.started(c, r, reply{status: status, header: map[string]string{},
			body: encode(s.poolDocument(r, profileOf(r, c.path[9]), c.version))}), nil, true
	case c.method == http.MethodDelete && at >= 0:
		answer, f := s.deletePool(c, r, pools, at)
		return answer, f, true
	case c.method == http.MethodDelete:
		return reply{status: http.StatusNoContent}, nil, true
	}
	return reply{}, s.kernel.missing(id.Child("agentPools", c.path[9])), true
}

// stoppedCount is where the document of a stopped pool keeps how many nodes it had: it comes back
// with them.
const stoppedCount = "routekeeper.stoppedCount"

func poolStopped(p object) bool { return p[stoppedCount] != nil }

// powerPool stops or starts a pool where that is what was sent, and returns what that is called.
func powerPool(p, had object) string {
	code := text(objectAt(p, "powerState"), "code")
	delete(p, "powerState")
	switch {
	case code == "Stopped" && !poolStopped(had) && had != nil:
		p[stoppedCount], p["count"] = had["count"], 0
		return "Stopping"
	case code == "Running" && poolStopped(had):
		p["count"] = had[stoppedCount]
		delete(p, stoppedCount)
		return "Starting"
	case poolStopped(had):
		p[stoppedCount], p["count"] = had[stoppedCount], 0
	}
	return ""
}

// putPool sets pool number at, or adds it behind the others. Unlike a PUT of the cluster, it
// associates no subnet with the table (AKS#1500).
func (s *aks) putPool(c *call, r *resource, pools []object, at int) *failure {
	sent, f := decodeObject(c.body)
	if f == nil {
		f = s.changeable(r)
	}
	if f != nil {
		return f
	}
	p := object{}
	if sentProperties := objectAt(sent, "properties"); sentProperties != nil {
		p = clone(sentProperties)
	}
	var had object
	name, doing := c.path[9], "Creating"
	if at < len(pools) {
		had, doing = pools[at], "Updating"
		name = text(had, "name")
	} else {
		setDefault(p, "mode", "User")
	}
	p["name"] = name
	properties := objectAt(r.body, "properties")
	if f := settlePool(p, had, properties); f != nil {
		return f
	}
	if f := s.checkPoolSubnet(r, p); f != nil {
		return f
	}
	all := append(pools[:at:at], append([]object{p}, pools[min(at+1, len(pools)):]...)...)
	if f := s.checkPools(r.id, object{"networkProfile": properties["networkProfile"],
		"agentPoolProfiles": items(all)}, false); f != nil {
		return f
	}
	if had != nil && numberOf(had, "count") != numberOf(p, "count") {
		doing = "Scaling"
	}
	if d := powerPool(p, had); d != "" {
		doing = d
	}
	if upgrades(p, had) {
		doing = "Upgrading"
	}
	cl := s.clusters[r.id.Key()]
	cl.idle()
	if f := s.setPool(cl, p, doing); f != nil {
		return f
	}
	if doing == "Upgrading" {
		if f := s.upgrade(cl, cl.pool(name), p, s.kernel.operationTime(c)); f != nil {
			return f
		}
	}
	s.storePools(c, r, all)
	s.nodesChanged(cl)
	return nil
}

func (s *aks) deletePool(c *call, r *resource, pools []object, at int) (reply, *failure) {
	if f := s.changeable(r); f != nil {
		return reply{}, f
	}
	id := r.id.Child("agentPools", c.path[9])
	all := append(pools[:at:at], pools[at+1:]...)
	if len(all) == 0 || !slices.ContainsFunc(all, func(p object) bool {
		return strings.EqualFold(text(p, "mode"), "System")
	}) {
		// wording [U]
		f := fail(http.StatusBadRequest, "OperationNotAllowed",
			"The last system agent pool of a cluster cannot be deleted.")
		s.kernel.record(c, id, "delete", f)
		return reply{}, f
	}
	cl := s.clusters[r.id.Key()]
	cl.idle()
	s.removePool(cl, cl.pool(text(pools[at], "name")))
	s.storePools(c, r, all)
	s.nodesChanged(cl)
	s.kernel.record(c, id, "delete", nil)
	return s.kernel.accepted(c, nil), nil
}

func items(objects []object) []any {
	out := make([]any, len(objects))
	for i, o := range objects {
		out[i] = o
	}
	return out
}

// storePools puts the pools into the cluster's document, which is busy from now on.
func (s *aks) storePools(c *call, r *resource, pools []object) {
	s.kernel.remember(r.id)
	objectAt(r.body, "properties")["agentPoolProfiles"] = items(pools)
	s.kernel.occupy(c, r, "Updating")
}
