package kube

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/inventory"
)

// played is an API server whose nodes and watches a test plays.
type played struct {
	t       *testing.T
	mu      sync.Mutex
	items   string
	down    bool
	hangs   bool
	lists   int
	from    []string // the versions that watches began at
	changes chan string
}

func (p *played) nodes(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	items, down, hangs, watch := p.items, p.down, p.hangs, r.URL.Query().Get("watch") != ""
	if watch {
		p.from = append(p.from, r.URL.Query().Get("resourceVersion"))
	} else if r.URL.Query().Get("limit") != "1" {
		p.lists++
	}
	p.mu.Unlock()
	switch {
	case hangs:
		<-r.Context().Done()
	case down:
		status(w, 503, "ServiceUnavailable", "etcd is away")
	case !watch:
		fmt.Fprintf(w, `{"kind":"NodeList","metadata":{"resourceVersion":"7"},"items":[%s]}`, items)
	default:
		out := http.NewResponseController(w)
		w.WriteHeader(http.StatusOK)
		_ = out.Flush()
		for {
			select {
			case <-r.Context().Done():
				return
			case change := <-p.changes:
				if change == "end" {
					return
				}
				fmt.Fprintln(w, change)
				_ = out.Flush()
			}
		}
	}
}

func (p *played) set(items string, down bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.items, p.down = items, down
}

func (p *played) seen() (lists int, from string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.lists, strings.Join(p.from, " ")
}

// nodeAt is a node with a pod CIDR, in the cluster's group.
func nodeAt(name string, n int, ready string) string {
	return fmt.Sprintf(`{"kind":"Node","metadata":{"name":%q,"resourceVersion":"%d"},"spec":{
		"podCIDRs":["10.244.%[2]d.0/24"],"providerID":"azure:///subscriptions/5ab00000-0000-4000-8000-000000000001/resourceGroups/mc_shop/providers/Microsoft.Compute/virtualMachineScaleSets/aks-np-vmss/virtualMachines/%[2]d"},
		"status":{"addresses":[{"type":"InternalIP","address":"10.1.0.%[2]d"}],"conditions":[{"type":"Ready","status":%[3]q}]}}`,
		name, n, ready)
}

func change(kind, object string) string {
	return strings.ReplaceAll(fmt.Sprintf(`{"type":%q,"object":%s}`, kind, object), "\n", " ")
}

// TestFollow: a follower lists the nodes once and then follows the watch. It tells only what
// concerns routes. It continues a watch that ends, lists again when the version has expired, and
// says since when the API server is lost.
func TestFollow(t *testing.T) {
	t.Parallel()
	p := &played{t: t, items: nodeAt("n1", 1, "True"), changes: make(chan string)}
	server := serve(t, apiServer{nodes: p.nodes})
	cluster := shop(t, "127.0.0.1")
	file := kubeconfig(t, server, "token: t")
	told := make(chan struct{}, 10)
	f := NewFollowers(func(context.Context, *inventory.Cluster) (*Client, error) {
		c, err := Load(Options{Kubeconfig: file, Cluster: cluster})
		if err == nil {
			c.pause = time.Millisecond
		}
		return c, err
	})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	look := func() *inventory.Kubernetes {
		return f.Nodes(ctx, cluster, 5*time.Second, func() { told <- struct{}{} })
	}
	names := func(want string) {
		t.Helper()
		var got []string
		for _, n := range look().Nodes {
			got = append(got, fmt.Sprint(n.Name, " ", n.Ready))
		}
		if strings.Join(got, ", ") != want {
			t.Fatalf("nodes %q, want %q", got, want)
		}
	}
	tells := func() {
		t.Helper()
		select {
		case <-told:
		case <-time.After(time.Minute):
			t.Fatal("the change is not reported")
		}
	}
	until := func(what string, holds func() bool) {
		t.Helper()
		for deadline := time.Now().Add(time.Minute); !holds(); time.Sleep(time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("not %s in time", what)
			}
		}
	}
	names("n1 true")
	p.changes <- change("ADDED", nodeAt("n2", 8, "False"))
	tells()
	names("n1 true, n2 false")
	p.changes <- change("MODIFIED", nodeAt("n2", 8, "True")) // it flaps
	p.changes <- change("MODIFIED", nodeAt("n1", 1, "False"))
	p.changes <- change("BOOKMARK", `{"kind":"Node","metadata":{"resourceVersion":"30"}}`)
	p.changes <- change("DELETED", nodeAt("n1", 1, "True"))
	tells()
	names("n2 true")
	if len(told) > 0 {
		t.Error("a node that is Ready again is reported: that changes no route")
	}

	// The server ends the watch: the next one continues at the last version.
	p.changes <- "end"
	until("watched again", func() bool { _, from := p.seen(); return from == "7 1" })
	p.set(nodeAt("n3", 3, "True"), false)
	p.changes <- change("ERROR", `{"kind":"Status","code":410,"message":"too old"}`)
	tells()
	names("n3 true")
	if lists, _ := p.seen(); lists != 2 {
		t.Errorf("%d lists, want one at the start and one after the version expired", lists)
	}

	until("watched again", func() bool { _, from := p.seen(); return from == "7 1 7" })

	// It is lost: the nodes are unknown, and the finding can say since when. Then it is back.
	before := time.Now()
	p.set("", true)
	p.changes <- "end"
	until("lost", func() bool { return look().Failed != "" })
	tells()
	if k := look(); k.Since.Before(before) || k.Nodes != nil ||
		!strings.Contains(k.Failed, "503 etcd is away") {
		t.Errorf("lost since %s with %v: %s", k.Since, k.Nodes, k.Failed)
	}
	p.set(nodeAt("n3", 3, "True"), false)
	tells()
	names("n3 true")

	// A cluster that no config names is not followed any more.
	f.Retain(map[string]bool{})
	lists, _ := p.seen()
	names("n3 true") // it begins again
	if now, _ := p.seen(); now != lists+1 {
		t.Errorf("%d lists after it was dropped", now-lists)
	}
}

// TestFollowSilent: an API server that hangs, or whose watch is behind, is noticed although the
// watch stays open. One that is too busy to answer is not lost.
func TestFollowSilent(t *testing.T) {
	t.Parallel()
	p := &played{t: t, items: nodeAt("n1", 1, "True"), changes: make(chan string)}
	busy := make(chan bool, 1)
	busy <- false
	asked := make(chan struct{}, 1000)
	server := serve(t, apiServer{nodes: func(w http.ResponseWriter, r *http.Request) {
		refuse := <-busy
		busy <- refuse
		if r.URL.Query().Get("limit") == "1" {
			asked <- struct{}{}
			if refuse {
				status(w, 429, "TooManyRequests", "later")
				return
			}
		}
		p.nodes(w, r)
	}})
	file := kubeconfig(t, server, "token: t")
	cluster := shop(t, "127.0.0.1")
	f := NewFollowers(func(context.Context, *inventory.Cluster) (*Client, error) {
		c, err := Load(Options{Kubeconfig: file, Cluster: cluster, Timeout: time.Second})
		if err == nil {
			c.askEvery, c.askFor = 5*time.Millisecond, 500*time.Millisecond
		}
		return c, err
	})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	told := make(chan struct{}, 1000)
	look := func() *inventory.Kubernetes {
		return f.Nodes(ctx, cluster, 5*time.Second, func() { told <- struct{}{} })
	}
	until := func(what string, holds func() bool) {
		t.Helper()
		for deadline := time.Now().Add(time.Minute); !holds(); time.Sleep(time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("not %s in time: %+v", what, look())
			}
		}
	}
	asks := func(n int) {
		for range len(asked) + n {
			<-asked
		}
	}
	known := func(names string) func() bool {
		return func() bool {
			var got []string
			for _, n := range look().Nodes {
				got = append(got, n.Name)
			}
			return strings.Join(got, " ") == names
		}
	}
	until("known", known("n1"))
	<-busy
	busy <- true
	asks(5)
	if k := look(); k.Failed != "" || !k.Followed || len(told) > 0 {
		t.Errorf("a busy API server is lost: %+v", k)
	}
	<-busy
	busy <- false
	asks(1)

	// The server has another node, and its watch does not say so.
	p.set(nodeAt("n1", 1, "True")+","+nodeAt("n2", 2, "True"), false)
	until("listed again", known("n1 n2"))
	<-told

	// It hangs: the connection of the watch stays open.
	p.mu.Lock()
	p.hangs = true
	p.mu.Unlock()
	until("unread", func() bool {
		return strings.Contains(look().Failed, "does not answer") && look().Nodes == nil
	})
	p.mu.Lock()
	p.hangs = false
	p.mu.Unlock()
	until("known again", known("n1 n2"))
}

// TestFollowElsewhere: the nodes of another cluster are refused, and a cluster that was created
// again is followed from its own API server.
func TestFollowElsewhere(t *testing.T) {
	p := &played{t: t, items: strings.ReplaceAll(nodeAt("n1", 1, "True"), "mc_shop", "mc_other"),
		changes: make(chan string)}
	server := serve(t, apiServer{nodes: p.nodes})
	file := kubeconfig(t, server, "token: t")
	f := NewFollowers(func(_ context.Context, c *inventory.Cluster) (*Client, error) {
		return Load(Options{Kubeconfig: file, Cluster: c})
	})
	cluster := shop(t, "127.0.0.1")
	for _, changed := range []func(){nil, func() {}} {
		if k := f.Nodes(t.Context(), cluster, 5*time.Second, changed); !strings.Contains(k.Failed,
			"is for another cluster than shop") || k.Nodes != nil {
			t.Errorf("%+v", k)
		}
	}
	p.set(nodeAt("n1", 1, "True"), false)
	again := *cluster
	again.Hosts = []string{"127.0.0.1", "new"}
	k := f.Nodes(t.Context(), &again, 5*time.Second, func() {})
	if len(k.Nodes) != 1 {
		t.Errorf("%+v", k)
	}
	f.Retain(nil)
}

// TestConnect: what AKS gives may run kubelogin and nothing else, and never asks a person.
func TestConnect(t *testing.T) {
	t.Setenv("KUBECONFIG", writeConfig(t, "other", "server: https://elsewhere.example", "token: t"))
	cluster := shop(t, "shop.example")
	give := func(login string) func(context.Context, arm.ID) ([]byte, error) {
		return func(context.Context, arm.ID) ([]byte, error) {
			return fmt.Appendf(nil, `{"current-context":"c",
			"contexts":[{"name":"c","context":{"cluster":"c","user":"u"}}],
			"clusters":[{"name":"c","cluster":{"server":"https://shop.example"}}],
			"users":[{"name":"u","user":%s}]}`, login), nil
		}
	}
	o := Options{Cluster: cluster}
	c, err := Connect(t.Context(), o, give(`{"token":"t"}`))
	if err != nil || c.Server() != "https://shop.example" || !c.proven {
		t.Fatalf("%v, %+v", err, c)
	}
	plugin := `{"exec":{"apiVersion":"client.authentication.k8s.io/v1beta1","command":%q,
		"args":["get-token","--login","devicecode"],"interactiveMode":"IfAvailable"}}`
	_, err = Connect(t.Context(), o, give(fmt.Sprintf(plugin, "/bin/sh")))
	says(t, err, `would run "/bin/sh"`, "only kubelogin is allowed")
	_, err = Connect(t.Context(), o, give(`{"tokenFile":"/etc/passwd"}`))
	says(t, err, `name the file "/etc/passwd"`)
	t.Setenv("PATH", t.TempDir())
	_, err = Connect(t.Context(), o, give(fmt.Sprintf(plugin, "kubelogin")))
	says(t, err, "takes only logins by kubelogin, which is not installed", "az aks install-cli")
	if k := unknown(err, time.Time{}); !k.NoLogin {
		t.Error("the finding does not know that kubelogin is missing")
	}
	t.Setenv("AZURE_FEDERATED_TOKEN_FILE", "x")
	raw, _ := give(fmt.Sprintf(plugin, "kubelogin"))(t.Context(), "")
	if c, err = fromAKS(raw, o); err != nil {
		t.Fatal(err)
	}
	if got := c.config.ExecProvider.Args; got[2] != "workloadidentity" {
		t.Errorf("kubelogin is run with %q, which waits for a person", got)
	}
	o.Kubeconfig = "nowhere.yaml"
	_, err = Connect(t.Context(), o, nil)
	says(t, err, "kubeconfig nowhere.yaml does not exist")
}
