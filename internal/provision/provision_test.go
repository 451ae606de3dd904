package provision

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidwall/sjson"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/azure"
	"routekeeper.dev/routekeeper/internal/build"
	"routekeeper.dev/routekeeper/internal/capacity"
	"routekeeper.dev/routekeeper/internal/emulator"
	"routekeeper.dev/routekeeper/internal/emulator/emulatortest"
)

const version = "2025-05-01"

// world is an emulator, its owner's client, and a cluster to build.
type world struct {
	t       *testing.T
	e       *emulator.Emulator
	op      *emulator.Client
	cluster build.Cluster
}

func newWorld(t *testing.T, opts emulator.Options) *world {
	t.Helper()
	w := &world{t: t, e: emulatortest.New(t, opts)}
	var err error
	if w.op, err = w.e.Client(emulatortest.Operator); err != nil {
		t.Fatal(err)
	}
	w.cluster, err = build.Cluster{
		Name: "shop", Subscription: emulator.DefaultSubscription, Location: "westeurope",
		Blueprint: capacity.Kubenet, Pools: []build.Pool{{Name: "system", VMSize: "Standard_D4s_v5",
			Count: 2}},
	}.Complete()
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// put writes a resource as the owner, who is not the caller of create.
func (w *world) put(id arm.ID, body string) {
	w.t.Helper()
	if status, answer := w.op.Do(http.MethodPut, id, version, []byte(body)); status >= 300 {
		w.t.Fatalf("%s: %d %s", id.Short(), status, answer)
	}
}

// get reads a resource, "" if it does not exist.
func (w *world) get(id arm.ID) string {
	status, answer := w.op.Do(http.MethodGet, id, version, nil)
	if status != http.StatusOK {
		return ""
	}
	return string(answer)
}

// meddling does something once, just before a matching call is sent.
type meddling struct {
	http.RoundTripper
	method, ending string
	do             func()
	once           *sync.Once
}

func (m meddling) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method == m.method && strings.HasSuffix(r.URL.Path, m.ending) {
		m.once.Do(m.do)
	}
	return m.RoundTripper.RoundTrip(r)
}

// untagging removes the tags from a resource's document, as a policy may.
type untagging struct {
	http.RoundTripper
	ending string
}

func (u untagging) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method == http.MethodPut && strings.HasSuffix(r.URL.Path, u.ending) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return nil, err
		}
		body, err = sjson.DeleteBytes(body, "tags")
		if err != nil {
			return nil, err
		}
		r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	}
	return u.RoundTripper.RoundTrip(r)
}

// TestTagsAreLost: if a written resource reads differently, the step reports it, and no later step
// begins.
func TestTagsAreLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, emulator.Options{})
		over := untagging{emulatortest.Transport(t, w.e), "/shop-nodes-rt"}
		client := emulatortest.ClientOver(t, over, w.e, emulatortest.Keeper)
		_, err := create(context.Background(), client, w.cluster, false, Observer{})
		want := "step 3 of 9, route table shop-nodes-rt: it was written, and reads differently: " +
			"the tag routekeeper-cluster is gone"
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v", err)
		}
		if w.get(w.cluster.VNetID()) != "" {
			t.Error("it continued")
		}
	})
}

// existing is a route table of another owner with the name of the cluster's.
const existing = `{"location":"westeurope","properties":{"routes":[
	{"name":"theirs","properties":{"addressPrefix":"10.9.0.0/16","nextHopType":"VnetLocal"}}]}}`

// TestAdoptedMeanwhile: a route that is added to an existing table between the read and the write
// of its tags is not lost.
func TestAdoptedMeanwhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, emulator.Options{})
		table := w.cluster.NodeTableID()
		w.put(table.Group(), `{"location":"westeurope"}`)
		w.put(table, existing)
		over := meddling{emulatortest.Transport(t, w.e), http.MethodPut, "/shop-nodes-rt", func() {
			w.put(table.Child("routes", "late"),
				`{"properties":{"addressPrefix":"10.8.0.0/16","nextHopType":"VnetLocal"}}`)
		}, new(sync.Once)}
		client := emulatortest.ClientOver(t, over, w.e, emulatortest.Keeper)
		if _, err := create(context.Background(), client, w.cluster, false,
			Observer{}); err == nil || !strings.Contains(err.Error(), "--adopt") {
			t.Fatalf("without --adopt: %v", err)
		}
		if strings.Contains(w.get(table), "routekeeper") {
			t.Fatal("it was changed without --adopt")
		}
		if _, err := create(context.Background(), client, w.cluster, true, Observer{}); err != nil {
			t.Fatal(err)
		}
		for _, part := range []string{`"theirs"`, `"late"`, build.OwnerTag, build.AdoptedTag} {
			if !strings.Contains(w.get(table), part) {
				t.Errorf("no %s in %s", part, w.get(table))
			}
		}
	})
}

// TestDeleteKeepsOthers: resources of other owners in the group stay, and so does the group.
func TestDeleteKeepsOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, emulator.Options{})
		client := emulatortest.Client(t, w.e, emulatortest.Keeper)
		if _, err := create(context.Background(), client, w.cluster, false,
			Observer{}); err != nil {
			t.Fatal(err)
		}
		other := arm.ResourceID(emulator.DefaultSubscription, w.cluster.Group, arm.TypeRouteTable,
			"other")
		over := meddling{emulatortest.Transport(t, w.e), http.MethodDelete, "/shop-nodes-rt",
			func() { w.put(other, existing) }, new(sync.Once)}
		_, err := Delete(context.Background(), emulatortest.ClientOver(t, over, w.e,
			emulatortest.Keeper), w.cluster, false, nil, func(int, int, Removal, time.Duration) {})
		if err == nil || !strings.Contains(err.Error(), "it holds other, which stays") {
			t.Fatalf("a resource came into the group meanwhile: %v", err)
		}
		if w.get(other) == "" {
			t.Fatal("it is gone with the group")
		}
		left, err := Delete(context.Background(), client, w.cluster, false, nil,
			func(int, int, Removal, time.Duration) {})
		if err != nil || len(left) != 1 || left[0].Verb != build.Keep ||
			!strings.Contains(left[0].Why, "it holds other") {
			t.Errorf("%+v %v", left, err)
		}
		if w.get(w.cluster.ClusterID()) != "" || w.get(w.cluster.VNetID()) != "" {
			t.Error("the cluster or its network is left")
		}
	})
}

// TestRolesCountLate: create waits until the identity's roles take effect, and reports it. If the
// caller lacks a right, it does not wait.
func TestRolesCountLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, emulator.Options{RoleDelay: 3 * time.Minute, CheckClusterIdentity: true})
		time.Sleep(time.Hour) // the callers' own roles have been in effect for long
		var waits []string
		began := time.Now()
		_, err := create(context.Background(), emulatortest.Client(t, w.e, emulatortest.Keeper),
			w.cluster, false,
			Observer{Waits: func(what string, _ time.Duration) { waits = append(waits, what) }})
		if err != nil || len(waits) == 0 || time.Since(began) < 3*time.Minute {
			t.Errorf("%v after %s, %q", err, time.Since(began), waits)
		}
		denied := emulator.Fault{Principal: emulatortest.Keeper.Name, Method: http.MethodPut,
			Path: "managedClusters/", Status: 403, Code: "AuthorizationFailed",
			Message: "The client with object id '" + emulatortest.Keeper.ObjectID +
				"' does not have authorization", Count: -1}
		if _, err := w.e.Inject(denied); err != nil {
			t.Fatal(err)
		}
		more := w.cluster
		more.Pools[0].Count = 3
		began = time.Now()
		_, err = create(context.Background(), emulatortest.Client(t, w.e, emulatortest.Keeper),
			more, false, Observer{})
		if err == nil || time.Since(began) > time.Minute {
			t.Errorf("refused for good: %v after %s", err, time.Since(began))
		}
	})
}

// TestNotOurs: resources of types that are never built are neither made nor deleted.
func TestNotOurs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, emulator.Options{})
		client := emulatortest.Client(t, w.e, emulatortest.Keeper)
		group := arm.ResourceID(emulator.DefaultSubscription, "g", arm.TypeSecurityGroup, "nsg")
		w.put(group.Group(), `{"location":"westeurope"}`)
		w.put(group, `{"location":"westeurope"}`)
		before := w.get(group)
		if err := client.Remove(context.Background(), group, time.Minute); err == nil {
			t.Error("it was deleted")
		}
		if !bytes.Equal([]byte(before), []byte(w.get(group))) {
			t.Error("it has changed")
		}
	})
}

// TestAdoptedNetwork: an existing network stays when the cluster is deleted, and its subnets lose
// the deleted route tables.
func TestAdoptedNetwork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, emulator.Options{})
		vnet := w.cluster.VNetID()
		w.put(vnet.Group(), `{"location":"westeurope"}`)
		w.put(vnet, `{"location":"westeurope","tags":{"team":"net"},"properties":{"addressSpace":{"addressPrefixes":["10.224.0.0/16"]},
			"subnets":[{"name":"theirs","properties":{"addressPrefix":"10.224.200.0/24"}}]}}`)
		client := emulatortest.Client(t, w.e, emulatortest.Keeper)
		if _, err := create(context.Background(), client, w.cluster, true, Observer{}); err != nil {
			t.Fatal(err)
		}
		left, err := Delete(context.Background(), client, w.cluster, false, nil,
			func(int, int, Removal, time.Duration) {})
		if err != nil {
			t.Fatalf("%v: %+v", err, left)
		}
		for _, id := range []arm.ID{w.cluster.ClusterID(), w.cluster.NodeTableID(),
			w.cluster.IdentityID()} {
			if w.get(id) != "" {
				t.Errorf("%s is left", id.Short())
			}
		}
		if subnet := w.get(w.cluster.NodeSubnetID()); subnet == "" ||
			strings.Contains(subnet, "routeTable") {
			t.Errorf("the node subnet is %s", subnet)
		}
		if !strings.Contains(w.get(vnet), `"theirs"`) || !strings.Contains(w.get(vnet), `"team"`) {
			t.Errorf("the network is %s", w.get(vnet))
		}
		again, err := Delete(context.Background(), client, w.cluster, false, nil,
			func(int, int, Removal, time.Duration) {})
		for _, r := range again {
			if r.Verb != build.Keep {
				t.Errorf("a second run would %s %s", r.Verb, r.ID.Short())
			}
		}
		if err != nil {
			t.Error(err)
		}
	})
}

// create takes all steps of a cluster.
func create(ctx context.Context, client *azure.Client, c build.Cluster, adopt bool,
	tell Observer) ([]Outcome, error) {
	return Take(ctx, client, c, c.Steps(), adopt, tell)
}
