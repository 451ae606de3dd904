package controller

import (
	"context"
	"sync"
	"time"

	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// lease is the lock of the leader election. It notes when this replica last renewed it, and which
// other replica holds it. How it works: client-go's elector reads and writes the Lease through it.
//
// A replica that loses the API server cannot renew the lease. It continues without a valid lease:
// it repairs associations, which two replicas may do at once, but writes no routes. It stops when
// it sees that another replica has the lease.
//
// A replica may write routes for two thirds of the lease's duration after its last renewal began,
// by its own monotonic clock. Others wait for the whole duration. The remaining third is for the
// PUT under way, and If-Match protects writes that take longer. Putting back a table that is
// already there is not a change, and a replica that reaches Azure but not the API server may be the
// only one.
type lease struct {
	resourcelock.Interface
	valid time.Duration // how long a renewal is good for: shorter than others wait

	mu      sync.Mutex
	renewed time.Time // when the last successful renewal began; zero: not the leader
	news    chan struct{}
	other   bool // another replica has it
}

func newLease(lock resourcelock.Interface, valid time.Duration) *lease {
	return &lease{Interface: lock, valid: valid, news: make(chan struct{}, 1)}
}

// Get reads the lease.
func (l *lease) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	record, raw, err := l.Interface.Get(ctx)
	if err == nil && record.HolderIdentity != "" && record.HolderIdentity != l.Identity() {
		l.mu.Lock()
		l.other, l.renewed = true, time.Time{}
		l.mu.Unlock()
		l.tell()
	}
	return record, raw, err
}

// Create makes the lease.
func (l *lease) Create(ctx context.Context, r resourcelock.LeaderElectionRecord) error {
	return l.write(r, func() error { return l.Interface.Create(ctx, r) })
}

// Update renews, takes or releases the lease.
func (l *lease) Update(ctx context.Context, r resourcelock.LeaderElectionRecord) error {
	return l.write(r, func() error { return l.Interface.Update(ctx, r) })
}

func (l *lease) write(r resourcelock.LeaderElectionRecord, write func() error) error {
	began := time.Now()
	mine := r.HolderIdentity == l.Identity()
	if !mine { // from here on no route is written
		l.mu.Lock()
		l.renewed = time.Time{}
		l.mu.Unlock()
	}
	err := write()
	if err == nil && mine {
		l.mu.Lock()
		l.renewed, l.other = began, false
		l.mu.Unlock()
		l.tell()
	}
	return err
}

func (l *lease) tell() {
	select {
	case l.news <- struct{}{}:
	default:
	}
}

// holds reports whether this replica may write, and since when it has not renewed the lease.
func (l *lease) holds() (bool, time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return !l.renewed.IsZero() && time.Since(l.renewed) < l.valid, l.renewed
}

// elsewhere reports whether another replica has the lease.
func (l *lease) elsewhere() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.other
}

// elect takes part in the election until the context ends, and then releases the lease.
func (l *lease) elect(ctx context.Context, duration time.Duration) error {
	for ctx.Err() == nil {
		elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
			Lock: l, LeaseDuration: duration, RenewDeadline: l.valid, RetryPeriod: duration / 8,
			ReleaseOnCancel: true, Name: "routekeeper",
			Callbacks: leaderelection.LeaderCallbacks{
				OnStartedLeading: func(context.Context) {}, OnStoppedLeading: func() {}},
		})
		if err != nil {
			return err
		}
		elector.Run(ctx)
	}
	return nil
}
