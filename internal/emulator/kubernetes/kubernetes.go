// Package kubernetes runs a real control plane for each of the emulator's clusters. Its etcd,
// kube-apiserver, kube-controller-manager and kube-scheduler are processes on loopback.
//
// Nodes and pods are simulated. Nodes follow the emulator's pools. A scheduled pod becomes Running
// with an address as the cluster's network plugin assigns it, but no container runs. The pods of
// routekeeper cluster hello serve their page from this process, and others a line that says so.
// Options.Way decides whether one pod reaches another. Logs and port-forward work as on AKS, from
// the API server to a kubelet, through a socket instead of AKS's tunnel.
package kubernetes

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/emulator"
)

// Packet is a packet between a pod and an address.
type Packet struct {
	Cluster  arm.ID
	From, To netip.Addr
	Port     int
	// List reads all of the cluster's objects of a type of the core API, such as nodes.
	List func(ctx context.Context, plural string) ([]byte, error)
}

// Options are the programs and the folder of the control planes.
type Options struct {
	Binaries Binaries
	// Folder holds etcd's data, keys and logs, a folder for each cluster.
	Folder string
	// Fresh deletes the content of the folder first.
	Fresh bool
	// Way returns why a packet does not arrive or its answer does not come back; "" if both do. An
	// error says that this is not known.
	Way func(context.Context, Packet) (lost string, err error)
	Log *slog.Logger
}

// Kubernetes runs the control planes of an emulator's clusters.
type Kubernetes struct {
	o    Options
	e    *emulator.Emulator
	ctx  context.Context // of all control planes
	stop context.CancelFunc
	done chan struct{}

	mu       sync.Mutex
	clusters map[string]*cluster // the called ones, by ID.Key()
	// of all clusters, to see which are deleted; nil before the first check
	incarnations map[string]any
}

// followTime is how often nodes are compared with the emulator's pools.
const followTime = 250 * time.Millisecond

// Join answers for the API servers of an emulator's clusters: the first call to each starts its
// control plane.
func Join(e *emulator.Emulator, o Options) (*Kubernetes, error) {
	var err error
	if o.Folder, err = filepath.Abs(o.Folder); err != nil {
		return nil, err
	}
	if o.Fresh {
		if err := os.RemoveAll(o.Folder); err != nil {
			return nil, err
		}
	}
	if err := os.MkdirAll(o.Folder, 0o700); err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(context.Background())
	k := &Kubernetes{o: o, e: e, ctx: ctx, stop: stop, done: make(chan struct{}),
		clusters: map[string]*cluster{}}
	e.ServeKubernetes(k)
	go func() {
		defer close(k.done)
		for tick := time.NewTicker(followTime); ; {
			k.follow()
			select {
			case <-tick.C:
			case <-ctx.Done():
				tick.Stop()
				return
			}
		}
	}()
	return k, nil
}

// Close ends all control planes.
func (k *Kubernetes) Close() {
	k.stop()
	<-k.done
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, c := range k.clusters {
		c.end()
	}
}

// follow ends the control planes of stopped and deleted clusters, and updates the nodes of the
// others. The data of a deleted cluster is removed.
func (k *Kubernetes) follow() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.followLocked()
}

func (k *Kubernetes) followLocked() {
	all, incarnations, folders := map[string]emulator.KubernetesCluster{}, map[string]any{},
		map[string]bool{}
	for _, shown := range k.e.KubernetesClusters(func(id arm.ID) bool {
		return k.clusters[id.Key()] != nil
	}) {
		key := shown.ID.Key()
		all[key], incarnations[key], folders[k.folderOf(shown.ID)] = shown, shown.Incarnation, true
	}
	for key, c := range k.clusters {
		if shown := all[key]; shown.Running && shown.Incarnation == c.incarnation {
			c.show(shown)
			continue
		}
		c.end()
		delete(k.clusters, key)
	}
	if k.incarnations == nil { // data of deleted clusters from an earlier emulator
		entries, err := os.ReadDir(k.o.Folder)
		for _, entry := range entries {
			if folder := filepath.Join(k.o.Folder, entry.Name()); !folders[folder] {
				err = errors.Join(err, os.RemoveAll(folder))
			}
		}
		k.warn(err)
	}
	for key, before := range k.incarnations {
		if incarnations[key] != before {
			k.warn(os.RemoveAll(k.folderOf(arm.ID(key))))
		}
	}
	k.incarnations = incarnations
}

func (k *Kubernetes) warn(err error) {
	if err != nil {
		k.o.Log.Error("the folder of a deleted cluster could not be removed", "error", err.Error())
	}
}

// folderOf returns the folder of a cluster's control plane: a name can exist in several groups.
func (k *Kubernetes) folderOf(id arm.ID) string {
	sum := sha256.Sum256([]byte(id.Key()))
	return filepath.Join(k.o.Folder, strings.ToLower(id.Name())+"-"+hex.EncodeToString(sum[:4]))
}

// Serve passes a call on to a cluster's API server. It waits for a new cluster to start.
func (k *Kubernetes) Serve(w http.ResponseWriter, r *http.Request, id arm.ID, user string,
	groups []string) {
	cp, err := k.ready(r.Context(), id)
	if err != nil {
		k.o.Log.Warn("an API server does not answer", "cluster", string(id), "error", err.Error())
		panic(http.ErrAbortHandler)
	}
	// The path is /_kubernetes/SUBSCRIPTION/GROUP/NAME/…, which the API server does not know.
	words := strings.SplitN(strings.TrimLeft(r.URL.Path, "/"), "/", 5)
	r = r.Clone(r.Context())
	r.URL.Path, r.URL.RawPath = "/"+strings.Join(words[min(4, len(words)):], ""), ""
	for name := range r.Header {
		// callers must not set their own identity
		if strings.HasPrefix(strings.ToLower(name), "x-remote-") {
			r.Header.Del(name)
		}
	}
	if user == "" {
		cp.asSent.ServeHTTP(w, r)
		return
	}
	r.Header.Del("Authorization")
	r.Header.Set("X-Remote-User", user)
	for _, group := range groups {
		r.Header.Add("X-Remote-Group", group)
	}
	cp.asUser.ServeHTTP(w, r)
}

// ready waits for a cluster's control plane, which the first call starts.
func (k *Kubernetes) ready(ctx context.Context, id arm.ID) (*controlPlane, error) {
	c, err := k.called(id)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, startTime,
		errors.New("it has not started in time"))
	defer cancel()
	select {
	case <-c.started:
		return c.cp, c.failed
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// called returns the cluster of a call, as the emulator has it now. If a cluster was deleted and
// created again under its name within followTime, this is another cluster.
func (k *Kubernetes) called(id arm.ID) (*cluster, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, shown := range k.e.KubernetesClusters(id.Equal) {
		if !shown.Running || !shown.ID.Equal(id) || k.ctx.Err() != nil {
			continue
		}
		if c := k.clusters[id.Key()]; c != nil && c.incarnation == shown.Incarnation {
			return c, nil
		}
		k.followLocked() // ends the deleted one, and deletes its folder
		c := k.newCluster(k.ctx, shown)
		k.clusters[id.Key()] = c
		return c, nil
	}
	return nil, fmt.Errorf("cluster %s does not run", id.Name())
}
