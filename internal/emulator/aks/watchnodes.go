package aks

import (
	"fmt"
	"hash/fnv"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"routekeeper.dev/routekeeper/internal/emulator/kernel"
)

// How it works: a watch of nodes. The version of a list is a hash of the nodes' contents. A watch
// that begins at the present version receives each later change. Any other version is refused
// (410), as by an API server that no longer has it: then the client lists again.

// defaultWatch is how long a watch lasts if its caller names no time.
const defaultWatch = 30 * time.Minute

// nodesVersion returns the resourceVersion of a cluster's nodes.
func (cl *cluster) nodesVersion() string {
	h := fnv.New32a()
	for _, n := range cl.nodes() {
		fmt.Fprintln(h, n.version())
	}
	return strconv.FormatUint(uint64(h.Sum32())+1, 10)
}

func (n *Node) version() string {
	return fmt.Sprint(n.Name, n.Addrs, n.PodCIDRs, n.Created.UnixNano(), n.routesSeen)
}

func watchesNodes(c *kernel.Call) bool {
	return c.Method == http.MethodGet && strings.Join(c.Path[4:], "/") == "api/v1/nodes" &&
		slices.Contains([]string{"1", "true"}, c.Param("watch"))
}

// watchNodes serves a watch of nodes.
func (s *APIServers) watchNodes(w http.ResponseWriter, r *http.Request, c *kernel.Call,
	start time.Time) bool {
	version := c.Param("resourceVersion")
	now, f := s.nodesSince(c, nil)
	if f == nil && version != "" && version != "0" && version != now.version {
		f = kernel.Fail(http.StatusGone, "Expired", "too old resource version: %s", version)
	}
	if c.Unknown != nil {
		f = c.Unknown
	}
	if f != nil {
		return s.refuse(w, c, start, f)
	}
	if version == "" || version == "0" { // it begins with all nodes
		now.nodes = nil
	}
	s.kernel.Requests.Add(c, start, kernel.Reply{Status: http.StatusOK}, "a watch")
	most := defaultWatch
	if seconds, err := strconv.Atoi(c.Param("timeoutSeconds")); err == nil && seconds > 0 {
		most = time.Duration(seconds) * time.Second
	}
	s.stream(w, r, c, now.nodes, most)
	return true
}

// stream sends what has changed since the nodes in sent, and each later change, until the time is
// over.
func (s *APIServers) stream(w http.ResponseWriter, r *http.Request, c *kernel.Call,
	sent map[string]string, most time.Duration) {
	out := http.NewResponseController(w)
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusOK)
	_ = out.Flush()
	over, alive := time.NewTimer(most), time.NewTicker(time.Second)
	defer over.Stop()
	defer alive.Stop()
	for {
		now, f := s.nodesSince(c, sent)
		if f != nil || s.Silent(c) || s.kernel.Faults.Take(c, false) != nil {
			return
		}
		for _, change := range now.changes {
			if _, err := w.Write(append(kernel.Encode(change), '\n')); err != nil {
				return
			}
		}
		if sent = now.nodes; len(now.changes) > 0 {
			_ = out.Flush()
		}
		select {
		case <-now.news:
		case <-alive.C:
		case <-over.C:
			return
		case <-r.Context().Done():
			return
		}
	}
}

// watched is what a watch of nodes sees at one time.
type watched struct {
	version string
	nodes   map[string]string // their versions, by name
	changes []kernel.Object   // since the nodes that were sent
	news    chan struct{}     // closed at the next change
}

// nodesSince returns the nodes of the called cluster, and what has changed since the sent ones.
func (s *APIServers) nodesSince(c *kernel.Call, sent map[string]string) (now watched,
	_ *kernel.Failure) {
	defer s.kernel.Lock()()
	s.kernel.Happen()
	cl, r, f := s.called(c)
	if f != nil {
		return now, f
	}
	if f := s.admitKubernetes(c.Who, r, "watch", "nodes", ""); f != nil {
		return now, f
	}
	if cl.news == nil {
		cl.news = make(chan struct{})
	}
	now = watched{version: cl.nodesVersion(), nodes: map[string]string{}, news: cl.news}
	show := func(kind string, document kernel.Object) {
		document["apiVersion"], document["kind"] = "v1", "Node"
		document["metadata"].(kernel.Object)["resourceVersion"] = now.version
		now.changes = append(now.changes, kernel.Object{"type": kind, "object": document})
	}
	for p, n := range cl.nodes() {
		was, known := sent[n.Name]
		now.nodes[n.Name] = n.version()
		switch {
		case !known:
			show("ADDED", cl.nodeDocument(p, n, profileOf(r, p.Name)))
		case was != now.nodes[n.Name]:
			show("MODIFIED", cl.nodeDocument(p, n, profileOf(r, p.Name)))
		}
	}
	for name := range sent {
		if _, still := now.nodes[name]; !still {
			show("DELETED", kernel.Object{"metadata": kernel.Object{"name": name}})
		}
	}
	return now, nil
}

// tellWatchers wakes the watches of a cluster's nodes.
func (cl *cluster) tellWatchers() {
	if cl.news != nil {
		close(cl.news)
		cl.news = nil
	}
}
