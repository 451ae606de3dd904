package kubernetes

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"sync"
	"time"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/emulator"
)

// cluster is a control plane with simulated nodes and pods.
type cluster struct {
	k           *Kubernetes
	id          arm.ID
	incarnation any
	folder      string
	stop        context.CancelFunc
	all         sync.WaitGroup

	started chan struct{} // closed when cp answers and has the nodes, or failed is set
	cp      *controlPlane
	failed  error

	mu    sync.Mutex
	shown emulator.KubernetesCluster
	wake  chan struct{}   // shown has changed
	pods  map[string]*pod // running ones, by namespace/name
}

func (k *Kubernetes) newCluster(ctx context.Context, shown emulator.KubernetesCluster) *cluster {
	ctx, stop := context.WithCancel(ctx)
	c := &cluster{k: k, id: shown.ID, incarnation: shown.Incarnation, folder: k.folderOf(shown.ID),
		stop: stop, started: make(chan struct{}), shown: shown, wake: make(chan struct{}, 1),
		pods: map[string]*pod{}}
	c.all.Go(func() {
		if c.failed = c.start(ctx, shown.ServiceCIDR); c.failed != nil && ctx.Err() == nil {
			k.o.Log.Error("a control plane did not start", "cluster", string(c.id), "error",
				c.failed.Error())
		}
		close(c.started)
	})
	return c
}

// start runs the control plane, and all background work of the cluster.
func (c *cluster) start(ctx context.Context, serviceCIDR string) error {
	// The path of a socket may have only about 100 characters, and the folder's may be longer.
	short, err := os.MkdirTemp("", "rk")
	if err != nil {
		return err
	}
	c.all.Go(func() {
		<-ctx.Done()
		os.RemoveAll(short)
	})
	socket := filepath.Join(short, "tunnel.sock")
	cp, err := startControlPlane(ctx, c.k.o.Binaries, c.folder, socket, serviceCIDR)
	if cp != nil {
		c.all.Go(cp.wait)
	}
	if err != nil {
		return err
	}
	c.cp = cp
	tunnel, err := c.newTunnel(socket)
	if err != nil {
		return err
	}
	c.all.Go(func() { tunnel.serve(ctx) })
	nodes := &nodes{cluster: c, written: map[string]emulator.KubernetesNode{}}
	if err := nodes.begin(ctx); err != nil {
		return err
	}
	c.all.Go(func() { c.repeat(ctx, c.wake, leaseTime, nodes.write) })
	services := &services{cluster: c}
	c.all.Go(func() { c.repeat(ctx, nil, time.Second, services.write) })
	kubelet := &kubelet{cluster: c}
	c.all.Go(func() { c.repeat(ctx, nil, time.Second, kubelet.run) })
	return nil
}

// repeat does something at a signal, and otherwise after a pause, until the context ends.
func (c *cluster) repeat(ctx context.Context, wake <-chan struct{}, pause time.Duration,
	do func(context.Context) error) {
	for ctx.Err() == nil {
		after := pause
		if err := do(ctx); err != nil && ctx.Err() == nil {
			c.k.o.Log.Debug("a call to a cluster's API server failed", "cluster", string(c.id),
				"error", err.Error())
			after = min(pause, time.Second)
		}
		select {
		case <-wake:
		case <-time.After(after):
		case <-ctx.Done():
		}
	}
}

// end stops everything and waits until it has stopped.
func (c *cluster) end() {
	c.stop()
	c.all.Wait()
}

// show updates the cluster to the emulator's state.
func (c *cluster) show(shown emulator.KubernetesCluster) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if reflect.DeepEqual(c.shown, shown) {
		return
	}
	c.shown = shown
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

func (c *cluster) state() emulator.KubernetesCluster {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.shown
}

func (c *cluster) node(name string) (emulator.KubernetesNode, bool) {
	for _, n := range c.state().Nodes {
		if n.Name == name {
			return n, true
		}
	}
	return emulator.KubernetesNode{}, false
}

// listed is a list of the API server, as far as it is read here.
type listed struct {
	Metadata struct {
		ResourceVersion string `json:"resourceVersion"`
	} `json:"metadata"`
	Items []json.RawMessage `json:"items"`
}

func (c *cluster) list(ctx context.Context, path string) (l listed, err error) {
	raw, err := c.cp.get(ctx, path)
	if err == nil {
		err = json.Unmarshal(raw, &l)
	}
	return l, err
}
