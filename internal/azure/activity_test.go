package azure_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/azure"
	"routekeeper.dev/routekeeper/internal/emulator"
	"routekeeper.dev/routekeeper/internal/emulator/emulatortest"
	"routekeeper.dev/routekeeper/internal/inventory"
)

// TestLogIsShared: clusters that ask what their identities wrote at the same time share the pages
// of their subscription's activity log. A cluster that asks later gets newer pages.
func TestLogIsShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const clusters, page = 30, 5
		e := emulatortest.New(t, emulator.Options{PageSize: page})
		var ids []arm.ID
		for i := range clusters {
			ids = append(ids, arm.ResourceID(sub, "rg", arm.TypeCluster, fmt.Sprintf("c%02d", i)))
		}
		newest := tables(t, e, 1, 7, 1)[0]
		time.Sleep(time.Minute)
		c := emulatortest.Client(t, e, emulatortest.Keeper)
		// read reads the log for some clusters, two at once. The first one's identity wrote tables.
		read := func(ids []arm.ID, newest arm.ID) (calls int) {
			t.Helper()
			before := e.LastRequest()
			var all sync.WaitGroup
			for _, part := range [][]arm.ID{ids[:len(ids)/2], ids[len(ids)/2:]} {
				all.Go(func() {
					s := inventory.NewSnapshot()
					for _, id := range part {
						cluster := &inventory.Cluster{Principals: []string{"another"}}
						if cluster.ID = id; id == ids[0] {
							cluster.Principals = []string{emulatortest.Operator.ObjectID}
						}
						s.Clusters[id.Key()] = cluster
					}
					if err := c.Read(t.Context(), s, inventory.Wanted{Written: part},
						azure.ReadOptions{}); err != nil {
						t.Error(err)
					}
					for _, id := range part {
						known := s.Known(id)
						wrote := len(known.Written) > 0 && known.Written[0].Equal(newest)
						if !known.LogRead || wrote != (id == ids[0]) {
							t.Errorf("%s: %+v", id.Short(), known)
						}
					}
				})
			}
			all.Wait()
			return e.LastRequest() - before
		}
		alone := read(ids[:1], newest)
		time.Sleep(3 * time.Second)
		if got := read(ids, newest); got > alone+clusters*2/page {
			t.Errorf("%d clusters needed %d calls, and one %d", clusters, got, alone)
		}
		newest = tables(t, e, 2, 1, 1)[1]
		time.Sleep(3 * time.Second)
		read(ids, newest)
	})
}

// TestLogHangs: who waits for a page that another is reading waits no longer than it wants to.
func TestLogHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := emulatortest.New(t, emulator.Options{})
		if _, err := e.Inject(emulator.Fault{Method: "GET", Path: "management/values", Count: -1,
			Hold: "before"}); err != nil {
			t.Fatal(err)
		}
		c := emulatortest.Client(t, e, emulatortest.Keeper)
		id := arm.ResourceID(sub, "rg", arm.TypeCluster, "c")
		read := func(ctx context.Context, wait time.Duration) {
			s := inventory.NewSnapshot()
			s.Clusters[id.Key()] = &inventory.Cluster{Document: arm.Document{ID: id}}
			if err := c.Read(ctx, s, inventory.Wanted{Written: []arm.ID{id}},
				azure.ReadOptions{Wait: wait, Poll: true}); err != nil && ctx.Err() == nil {
				t.Error(err)
			}
		}
		ctx, cancel := context.WithCancel(t.Context())
		var patient sync.WaitGroup
		patient.Go(func() { read(ctx, time.Minute) })
		synctest.Wait()
		began := time.Now()
		read(t.Context(), time.Second)
		if took := time.Since(began); took > 2*time.Second {
			t.Errorf("it waited %s", took)
		}
		cancel()
		patient.Wait()
	})
}
