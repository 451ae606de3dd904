package kube

import (
	"context"
	"errors"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"routekeeper.dev/routekeeper/internal/inventory"
)

// Followers follow the nodes of clusters.
//
// How it works: each cluster has a goroutine that connects, lists the nodes, and watches them from
// there. When a watch ends, the next one continues where it ended; when the API server has
// forgotten that version (410), the nodes are listed again. When the API server is lost, or falls
// silent (alive.go), the goroutine connects again, less and less often. Until then the nodes are
// unknown, because nodes may have come and gone since the last read.
type Followers struct {
	connect Connector

	mu        sync.Mutex
	followers map[string]*follower // by the cluster's ID.Key()
}

// Connector connects to the API server of a cluster.
type Connector func(context.Context, *inventory.Cluster) (*Client, error)

// NewFollowers follows nothing yet.
func NewFollowers(connect Connector) *Followers {
	return &Followers{connect: connect, followers: map[string]*follower{}}
}

// Nodes returns the nodes of a cluster, or why they are unknown. It waits at most the given time
// for a first answer; 0 means until there is an answer or a failure. If changed is not nil, it
// follows the nodes until the context ends or Retain drops the cluster, and calls changed after
// every change that concerns routes.
func (f *Followers) Nodes(ctx context.Context, cluster *inventory.Cluster, wait time.Duration,
	changed func()) *inventory.Kubernetes {
	if changed == nil {
		client, err := f.connect(ctx, cluster)
		if err != nil {
			return unknown(err, time.Time{})
		}
		nodes, _, err := client.ListNodes(ctx)
		if err != nil {
			return unknown(err, time.Time{})
		}
		return &inventory.Kubernetes{Nodes: nodes}
	}
	one := f.follow(ctx, cluster, changed)
	select {
	case <-one.first:
	case <-time.After(wait):
	case <-ctx.Done():
	}
	return one.show()
}

// Retain stops following all other clusters.
func (f *Followers) Retain(clusters map[string]bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for key, one := range f.followers {
		if !clusters[key] {
			one.stop()
			delete(f.followers, key)
		}
	}
}

// follow returns the follower of a cluster. A cluster that was deleted and created again has other
// names.
func (f *Followers) follow(ctx context.Context, cluster *inventory.Cluster,
	changed func()) *follower {
	f.mu.Lock()
	defer f.mu.Unlock()
	key := cluster.ID.Key()
	if one := f.followers[key]; one != nil && one.life.Err() == nil &&
		slices.Equal(one.of().Hosts, cluster.Hosts) {
		one.mu.Lock()
		defer one.mu.Unlock()
		one.cluster, one.changed = cluster, changed
		return one
	} else if one != nil {
		one.stop()
	}
	one := &follower{connect: f.connect, cluster: cluster, changed: changed,
		first: make(chan struct{})}
	one.life, one.stop = context.WithCancel(ctx)
	f.followers[key] = one
	go one.run()
	return one
}

// follower follows the nodes of one cluster.
type follower struct {
	connect Connector
	life    context.Context
	stop    func()
	first   chan struct{} // closed once the API server has answered, or the first try has failed

	mu       sync.Mutex
	cluster  *inventory.Cluster
	changed  func()
	answered bool // first is closed
	missed   bool // a caller stopped waiting for the first answer
	nodes    map[string]inventory.Node
	failed   error     // nil while the nodes are known
	since    time.Time // when the API server last answered; zero: never
	shown    *inventory.Kubernetes
}

const (
	// pauseFirst and pauseMost are the first and the longest pause before the next connection.
	pauseFirst, pauseMost = 250 * time.Millisecond, 30 * time.Second
	// shortWatch is how long a watch normally lasts at least. After a shorter one the follower
	// pauses.
	shortWatch = time.Second
)

func (f *follower) of() *inventory.Cluster {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.cluster
}

// run connects again and again until the follower is stopped.
func (f *follower) run() {
	pause := pauseFirst
	for f.life.Err() == nil {
		began := time.Now()
		err := f.session()
		if f.life.Err() != nil {
			return
		}
		f.lose(err)
		if time.Since(began) > pauseMost {
			pause = pauseFirst
		}
		f.rest(pause - pause/5 + rand.N(pause*2/5+1))
		pause = min(2*pause, pauseMost)
	}
}

func (f *follower) rest(d time.Duration) {
	select {
	case <-time.After(d):
	case <-f.life.Done():
	}
}

// session lists the nodes and watches them until the API server is lost.
func (f *follower) session() error {
	client, err := f.connect(f.life, f.of())
	if err != nil {
		return err
	}
	defer client.http.CloseIdleConnections()
	defer client.watch.CloseIdleConnections()
	nodes, version, err := client.ListNodes(f.life)
	if err != nil {
		return err
	}
	f.replace(nodes)
	ctx, lost := context.WithCancelCause(f.life)
	var asking sync.WaitGroup
	defer asking.Wait()
	defer lost(nil)
	asking.Go(func() {
		if err := client.awaitSilence(ctx, f.count); err != nil {
			lost(err)
		}
	})
	for f.life.Err() == nil {
		began := time.Now()
		version, err = client.watchNodes(ctx, version, f.note)
		if errors.Is(err, errExpired) {
			if nodes, version, err = client.ListNodes(ctx); err == nil {
				f.replace(nodes)
			}
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err != nil {
			return err
		}
		if time.Since(began) < shortWatch {
			f.rest(pauseFirst)
		}
	}
	return nil
}

// replace takes a whole list.
func (f *follower) replace(nodes []inventory.Node) {
	f.mu.Lock()
	before, news := f.nodes, f.failed != nil || f.missed
	f.nodes, f.failed, f.shown = make(map[string]inventory.Node, len(nodes)), nil, nil
	same := len(before) == len(nodes)
	for _, n := range nodes {
		was, known := before[n.Name]
		same = same && known && sameRoutes(was, n)
		f.nodes[n.Name] = n
	}
	news, f.missed = news || before != nil && !same, false
	f.answeredLocked()
	f.mu.Unlock()
	if news {
		f.tell()
	}
}

// note takes one change. It reports only changes that concern routes: kubelets write their nodes
// often.
func (f *follower) note(n inventory.Node, deleted bool) {
	f.mu.Lock()
	was, known := f.nodes[n.Name]
	same := known && sameRoutes(was, n)
	if deleted {
		delete(f.nodes, n.Name)
		same = !known
	} else {
		f.nodes[n.Name] = n
	}
	f.shown = nil
	f.mu.Unlock()
	if !same {
		f.tell()
	}
}

// count returns how many nodes are shown.
func (f *follower) count() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.nodes)
}

func sameRoutes(a, b inventory.Node) bool {
	return slices.Equal(a.PodCIDRs, b.PodCIDRs) && slices.Equal(a.Addresses, b.Addresses)
}

func (f *follower) tell() {
	f.mu.Lock()
	changed := f.changed
	f.mu.Unlock()
	changed()
}

// lose notes that the API server is lost, and when it last answered.
func (f *follower) lose(err error) {
	f.mu.Lock()
	news := f.failed == nil && f.nodes != nil
	if news {
		f.since = time.Now()
	}
	f.failed, f.shown = err, nil
	f.answeredLocked()
	f.mu.Unlock()
	if news {
		f.tell()
	}
}

// answeredLocked notes that there is an answer, even if it is a failure.
func (f *follower) answeredLocked() {
	if !f.answered {
		f.answered = true
		close(f.first)
	}
}

// show returns what is known.
func (f *follower) show() *inventory.Kubernetes {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case f.shown != nil:
	case f.failed != nil:
		f.shown = unknown(f.failed, f.since)
	case f.nodes == nil:
		f.missed = true
		return unknown(errors.New("its Kubernetes API has not answered yet"), time.Time{})
	default:
		f.shown = &inventory.Kubernetes{Nodes: slices.SortedFunc(maps.Values(f.nodes),
			inventory.Node.Compare), Followed: true}
	}
	return f.shown
}

// unknown says why nodes are unknown, and when the API server last answered.
func unknown(err error, since time.Time) *inventory.Kubernetes {
	return &inventory.Kubernetes{Failed: oneLine(err), Since: since,
		NoLogin: errors.Is(err, ErrNoLogin)}
}
