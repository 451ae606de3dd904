package aks

import (
	"maps"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"time"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/emulator/kernel"
)

// Kubernetes replaces the small API servers of apiserver.go.
type Kubernetes interface {
	// Serve answers a call to a cluster's API server. The emulator has authenticated the user; user
	// is "" if it does not know the token, which can still be a service account's.
	Serve(w http.ResponseWriter, r *http.Request, cluster arm.ID, user string, groups []string)
}

// KubernetesCluster is a cluster's state for a real API server.
type KubernetesCluster struct {
	ID arm.ID
	// Incarnation distinguishes a cluster from a deleted one with the same name.
	Incarnation any
	// Running is false for a stopped cluster.
	Running bool
	// ServiceCIDR is the range of the services' addresses.
	ServiceCIDR string
	Nodes       []KubernetesNode
	Workloads   []KubernetesWorkload
}

// KubernetesNode is a node with the addresses of its pods.
type KubernetesNode struct {
	Name     string
	Document map[string]any
	Addrs    []netip.Addr // its own, one of each family
	// PodCIDRs are the node's parts of the pod CIDRs. PodAddrs are its pods' addresses in a subnet.
	// If both are empty, pods wait for a network plugin.
	PodCIDRs []netip.Prefix
	PodAddrs []netip.Addr
}

// KubernetesWorkload is a workload that AKS, or the tenant, runs on every node.
type KubernetesWorkload struct {
	Namespace, Name string
	HostNetwork     bool
}

// ServeKubernetes lets k answer for the API servers of all clusters from now on. It is called
// before the emulator serves anything.
func (s *APIServers) ServeKubernetes(k Kubernetes) { s.real = k }

// KubernetesClusters returns all clusters, sorted by ID. Only the clusters that nodesOf selects
// have their nodes, because many nodes take time.
func (s *APIServers) KubernetesClusters(nodesOf func(arm.ID) bool) []KubernetesCluster {
	defer s.kernel.Lock()()
	s.kernel.Happen()
	var out []KubernetesCluster
	for _, key := range slices.Sorted(maps.Keys(s.Clusters)) {
		cl := s.Clusters[key]
		r := s.kernel.Store.Get(cl.ID)
		if r == nil {
			continue
		}
		profile := kernel.ObjectAt(r.Properties(), "networkProfile")
		k := KubernetesCluster{ID: r.ID, Incarnation: cl, Running: powerOf(r) == "Running",
			ServiceCIDR: kernel.Text(profile, "serviceCidr")}
		if nodesOf(r.ID) {
			cl.addNodes(&k, r)
		}
		out = append(out, k)
	}
	return out
}

// addNodes adds the nodes to a cluster, and what runs on them.
func (cl *cluster) addNodes(k *KubernetesCluster, r *kernel.Resource) {
	for p, n := range cl.nodes() {
		k.Nodes = append(k.Nodes, cl.kubernetesNode(p, n, profileOf(r, p.Name)))
		for _, w := range cl.podsOn(p, n, policyEngine(r)) {
			if !slices.Contains(k.Workloads, w.KubernetesWorkload) {
				k.Workloads = append(k.Workloads, w.KubernetesWorkload)
			}
		}
	}
}

func (cl *cluster) kubernetesNode(p *pool, n *Node, profile kernel.Object) KubernetesNode {
	k := KubernetesNode{Name: n.Name, Document: cl.nodeDocument(p, n, profile),
		Addrs: n.addresses()}
	switch {
	case cl.Mode.hasPodCIDR():
		k.PodCIDRs = slices.Clone(n.PodCIDRs)
	case cl.Mode == modeVNet && p.PodSubnet != "":
		k.PodAddrs = slices.Clone(n.Pods)
	case cl.Mode == modeVNet:
		k.PodAddrs = slices.Clone(n.Addrs[min(1, len(n.Addrs)):])
	}
	return k
}

// TakesOver answers a call to a cluster's real API server, or a watch of nodes, and reports whether
// it has. It does not read the body: the call may be a watch or an upgrade to another protocol.
func (s *APIServers) TakesOver(w http.ResponseWriter, r *http.Request) bool {
	start, c := time.Now(), s.kernel.NewCall(r, nil)
	if !toAPIServer(c) || s.real == nil && !watchesNodes(c) {
		return false
	}
	if s.turnedAway(w, c, start) {
		return true
	}
	if s.real == nil {
		return s.watchNodes(w, r, c, start)
	}
	user, groups, f := s.kubernetesGroups(c)
	if f != nil {
		return s.refuse(w, c, start, f)
	}
	s.kernel.Requests.Add(c, start, kernel.Reply{Status: http.StatusOK},
		"by the cluster's API server")
	s.real.Serve(w, r, s.calledStoredID(c), user, groups)
	return true
}

// refuse answers with a failure a call that TakesOver has taken over. It returns true.
func (s *APIServers) refuse(w http.ResponseWriter, c *kernel.Call, start time.Time,
	f *kernel.Failure) bool {
	answer := s.Refusal(f)
	s.kernel.Requests.Add(c, start, answer, "")
	kernel.Write(w, c, answer)
	return true
}

// turnedAway finds out who calls. It answers a call itself, and reports that, if no API server gets
// the call: none answers, or a fault answers instead.
func (s *APIServers) turnedAway(w http.ResponseWriter, c *kernel.Call, start time.Time) bool {
	c.Secret = true
	c.Who, c.Unknown = s.User(c)
	if s.Silent(c) {
		s.kernel.Requests.Add(c, start, kernel.Reply{}, "no API server")
		kernel.Cut(w)
		return true
	}
	fault := s.kernel.Faults.Take(c, false)
	if fault != nil && fault.Before() && fault.Status != 0 {
		return s.refuse(w, c, start, fault.Failure())
	}
	return false
}

// calledStoredID returns the called cluster, with the spelling of its stored ID.
func (s *APIServers) calledStoredID(c *kernel.Call) arm.ID {
	defer s.kernel.Lock()()
	if r := s.kernel.Store.Get(calledClusterID(c)); r != nil {
		return r.ID
	}
	return calledClusterID(c)
}

// kubernetesGroups returns the groups of the caller for the API server. Local accounts are
// administrators, as on AKS. For other callers, Azure's roles make them administrators for one
// call. Kubernetes' own bindings decide about everything else.
func (s *APIServers) kubernetesGroups(c *kernel.Call) (user string, groups []string,
	f *kernel.Failure) {
	const administrators = "system:masters"
	defer s.kernel.Lock()()
	_, r, f := s.called(c)
	if f != nil {
		return "", nil, f
	}
	if c.Unknown != nil { // the API server decides about a service account or an unknown user
		return "", nil, nil
	}
	if f := s.admitKubernetes(c.Who, r, "", "", ""); f != nil {
		return "", nil, f
	}
	if c.Who.ObjectID == "" {
		return "masterclient", []string{administrators}, nil
	}
	azureRoles := kernel.ObjectAt(r.Properties(), "aadProfile")["enableAzureRBAC"] == true
	if s.authorization.IsDefault(c.Who) ||
		azureRoles && s.authorization.Granted(c.Who, dataAction(c), r.ID, true) {
		return c.Who.ObjectID, []string{administrators}, nil
	}
	return c.Who.ObjectID, nil, nil
}

// dataAction returns the data action of a call to an API server, such as
// Microsoft.ContainerService/managedClusters/apps/deployments/write.
func dataAction(c *kernel.Call) string {
	for name := range c.Header {
		if strings.HasPrefix(strings.ToLower(name), "impersonate-") {
			return arm.TypeCluster + "/users/impersonate/action"
		}
	}
	verb := "write"
	switch c.Method {
	case http.MethodGet, http.MethodHead:
		verb = "read"
	case http.MethodDelete:
		verb = "delete"
	}
	words := c.Path[4:]
	kind := ""
	switch {
	case len(words) > 2 && words[0] == "api":
		words = words[2:]
	case len(words) > 3 && words[0] == "apis":
		kind, words = words[1]+"/", words[3:]
	default: // discovery
		return arm.TypeCluster + "/" + strings.Join(words, "/") + "/" + verb
	}
	if words[0] == "namespaces" && len(words) > 2 {
		words = words[2:]
	}
	action := arm.TypeCluster + "/" + kind + words[0] + "/"
	if len(words) > 2 && words[2] != "status" && words[2] != "log" && words[2] != "scale" {
		return action + words[2] + "/action" // exec and similar subresources, whatever the method
	}
	return action + verb
}
