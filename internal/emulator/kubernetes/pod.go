package kubernetes

import (
	"bytes"
	"fmt"
	"maps"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"sync"

	"routekeeper.dev/routekeeper/internal/hello"
)

// podDocument is a pod of the API server, as far as a kubelet reads it here.
type podDocument struct {
	Metadata struct {
		Name              string `json:"name"`
		Namespace         string `json:"namespace"`
		UID               string `json:"uid"`
		DeletionTimestamp string `json:"deletionTimestamp"`
	} `json:"metadata"`
	Spec struct {
		NodeName    string `json:"nodeName"`
		HostNetwork bool   `json:"hostNetwork"`
		Containers  []struct {
			Name  string   `json:"name"`
			Image string   `json:"image"`
			Args  []string `json:"args"`
			Ports []struct {
				ContainerPort int `json:"containerPort"`
			} `json:"ports"`
		} `json:"containers"`
		InitContainers []struct {
			Name  string `json:"name"`
			Image string `json:"image"`
		} `json:"initContainers"`
	} `json:"spec"`
	Status struct {
		Phase  string `json:"phase"`
		PodIPs []struct {
			IP netip.Addr `json:"ip"`
		} `json:"podIPs"`
	} `json:"status"`
}

func (d *podDocument) key() string { return d.Metadata.Namespace + "/" + d.Metadata.Name }

func (d *podDocument) path() string {
	return "/api/v1/namespaces/" + d.Metadata.Namespace + "/pods/" + d.Metadata.Name
}

// pod is a running pod: it has addresses, and a handler that answers.
type pod struct {
	podDocument
	addrs   []netip.Addr
	handler http.Handler
	log     *podLog
}

// listens reports whether a container declares a port. If none declares any, all are open.
func (p *pod) listens(port int) bool {
	told := false
	for _, c := range p.Spec.Containers {
		for _, its := range c.Ports {
			told = true
			if its.ContainerPort == port {
				return true
			}
		}
	}
	return !told
}

// setHandler sets the handler of a pod: the demo's own program, or a line of text for any other
// image.
func (c *cluster) setHandler(p *pod) {
	p.log = &podLog{}
	first := p.Spec.Containers[0]
	if len(first.Args) == 0 || first.Args[0] != "hello" {
		fmt.Fprintf(p.log, "this pod is simulated by routekeeper emulator: %s does not run\n",
			first.Image)
		p.handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			fmt.Fprintf(p.log, "%s %s\n", r.Method, r.URL)
			fmt.Fprintf(w, "pod %s on node %s is simulated by routekeeper emulator: %s does not "+
				"run\n", p.key(), p.Spec.NodeName, first.Image)
		})
		return
	}
	server := &hello.Server{
		Self: hello.Self{Pod: p.Metadata.Name, Namespace: p.Metadata.Namespace,
			Node: p.Spec.NodeName},
		Log: p.log, Dial: c.dialer(p), Peers: c.peersOf(p), Limit: limit,
	}
	if len(p.addrs) > 0 {
		server.Self.Address = p.addrs[0].String()
	}
	fmt.Fprintf(p.log, "listening on :%s, simulated by routekeeper emulator\n",
		strconv.Itoa(hello.Port))
	p.handler = server.Handler()
}

func (c *cluster) running() []*pod {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Collect(maps.Values(c.pods))
}

func (c *cluster) pod(key string) *pod {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.pods[key]
}

// podAt returns the pod with that address, unless it is the host's, or nil.
func (c *cluster) podAt(a netip.Addr) *pod {
	for _, p := range c.running() {
		if !p.Spec.HostNetwork && slices.Contains(p.addrs, a) {
			return p
		}
	}
	return nil
}

// podLog stores the last output of a pod.
type podLog struct {
	mu      sync.Mutex
	dropped int // how many bytes were dropped
	text    []byte
}

const maxLog = 1 << 20

// Write adds to the log.
func (l *podLog) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text = append(l.text, p...)
	if over := len(l.text) - maxLog; over > 0 {
		l.text, l.dropped = bytes.Clone(l.text[over:]), l.dropped+over
	}
	return len(p), nil
}

// from returns the output after a position, and the new position.
func (l *podLog) from(at int) ([]byte, int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	start := max(0, at-l.dropped)
	return bytes.Clone(l.text[min(start, len(l.text)):]), l.dropped + len(l.text)
}
