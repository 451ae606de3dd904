package demo

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"net/netip"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tidwall/sjson"

	"routekeeper.dev/routekeeper/api/v1alpha1"
	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/azure"
	"routekeeper.dev/routekeeper/internal/emulator"
	"routekeeper.dev/routekeeper/internal/emulator/emulatortest"
	"routekeeper.dev/routekeeper/internal/inventory"
	"routekeeper.dev/routekeeper/internal/keeper"
)

// sabotage is a way to break the real keeper.
type sabotage struct {
	options keeper.Options
	put     func(path string, body []byte) []byte // rewrites what the keeper PUTs
	azure   func(keeper.Azure) keeper.Azure
	late    bool // reports tables as its first check read them
}

// play runs the demo with a keeper that is broken in one way, and returns the names of the failed
// scenes. Patience is for the scenes that must fail.
func play(t *testing.T, s sabotage, patience time.Duration, fail ...string) []string {
	t.Helper()
	var red []string
	ok, err := Run(t.Context(), Options{
		Dir: t.TempDir(), RouteBatch: 50 * time.Millisecond,
		Patience: func(scene string) time.Duration {
			if slices.Contains(fail, scene) {
				return patience
			}
			return 20 * time.Second
		},
		NewKeeper: func(info emulator.Info, configs []v1alpha1.ClusterRoutes) (Keeper, error) {
			client, err := connect(info, s.put)
			if err != nil {
				return nil, err
			}
			var a keeper.Azure = client
			if s.azure != nil {
				a = s.azure(a)
			}
			k := keeper.New(a, configs, s.options)
			if s.late {
				return &belated{Keeper: k}, nil
			}
			return k, nil
		},
		Scene: func(sc Scene) {
			t.Logf("%-10s %-5v %6dms reads %d writes %d polls %d  %s", sc.Name, sc.OK,
				sc.Elapsed.Milliseconds(), sc.Reads, sc.Writes, sc.Polls, sc.Detail)
			if !sc.OK {
				red = append(red, sc.Name)
			}
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	if ok != (len(red) == 0) {
		t.Errorf("Run says %v, and %d scenes went wrong", ok, len(red))
	}
	return red
}

// connect makes the keeper's client of the emulator, which changes the bodies of its PUTs.
func connect(info emulator.Info, put func(path string, body []byte) []byte) (*azure.Client, error) {
	client, err := info.Client()
	if err != nil {
		return nil, err
	}
	client.Transport = rewriting{client.Transport, put}
	return emulatortest.ConnectOver(info, client)
}

// rewriting changes the bodies of PUTs.
type rewriting struct {
	next http.RoundTripper
	put  func(path string, body []byte) []byte
}

func (r rewriting) RoundTrip(request *http.Request) (*http.Response, error) {
	if r.put == nil || request.Method != http.MethodPut {
		return r.next.RoundTrip(request)
	}
	body, err := io.ReadAll(request.Body)
	if err != nil {
		return nil, err
	}
	body = r.put(request.URL.Path, body)
	clone := request.Clone(request.Context())
	clone.Body, clone.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	return r.next.RoundTrip(clone)
}

// TestMain lets these tests wait side by side: a scene that fails takes all its patience.
func TestMain(m *testing.M) {
	emulatortest.Overlap(12)
	os.Exit(m.Run())
}

func TestDemo(t *testing.T) {
	t.Parallel()
	if red := play(t, sabotage{}, 0); len(red) > 0 {
		t.Errorf("wrong: %v", red)
	}
}

// TestSaboteurs shows that the scenes detect what they are for: a keeper that is broken in one way
// fails the right scenes, and no others. Where a slow keeper could fail, too, there is patience for
// a slow machine.
func TestSaboteurs(t *testing.T) {
	tests := []struct {
		name     string
		sabotage sabotage
		patience time.Duration
		red      []string
	}{
		{
			"writes nothing", sabotage{options: keeper.Options{DryRun: true}}, time.Second / 2,
			[]string{"sync", "scale-out", "strip", "next-hop", "unmanaged", "scale-in",
				"safeguard", "firewall"},
		},
		{
			"rebuilds subnets from a typed model", sabotage{put: typedSubnet}, 4 * time.Second,
			[]string{"strip"},
		},
		{
			"puts back tables only", sabotage{put: withoutGroup}, 4 * time.Second,
			[]string{"firewall"},
		},
		{
			"deletes routes it does not know", sabotage{put: withoutUnknown}, 3 * time.Second,
			[]string{"sync", "unmanaged"},
		},
		{
			"takes what is missing for proven gone", sabotage{
				azure: func(a keeper.Azure) keeper.Azure { return credulous{a} }}, 8 * time.Second,
			[]string{"safeguard"},
		},
		{
			"rewrites what is correct", sabotage{azure: func(a keeper.Azure) keeper.Azure {
				return &restless{Azure: a}
			}}, 8 * time.Second,
			[]string{"quiet"},
		},
		{
			"reports what it saw at first", sabotage{late: true}, time.Second / 2,
			[]string{"scale-out", "strip", "next-hop", "unmanaged", "scale-in", "safeguard",
				"firewall"},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if red := play(t, tt.sabotage, tt.patience, tt.red...); !slices.Equal(red, tt.red) {
				t.Errorf("red %v, want %v", red, tt.red)
			}
		})
	}
}

// typedSubnet decodes and encodes a subnet with the fields of some years ago, as AGIC does.
func typedSubnet(path string, body []byte) []byte {
	if !strings.Contains(path, "/subnets/") {
		return body
	}
	type ref struct {
		ID string `json:"id"`
	}
	var model struct {
		ID         string `json:"id"`
		Name       string `json:"name"`
		Properties struct {
			AddressPrefix        string `json:"addressPrefix"`
			NetworkSecurityGroup *ref   `json:"networkSecurityGroup,omitempty"`
			RouteTable           *ref   `json:"routeTable,omitempty"`
			ServiceEndpoints     []any  `json:"serviceEndpoints,omitempty"`
			Delegations          []any  `json:"delegations,omitempty"`
		} `json:"properties"`
	}
	if err := json.Unmarshal(body, &model); err != nil {
		return body
	}
	out, err := json.Marshal(model)
	if err != nil {
		return body
	}
	return out
}

// withoutGroup drops the security group from what is written.
func withoutGroup(path string, body []byte) []byte {
	if !strings.Contains(path, "/web-vnet/subnets/") {
		return body
	}
	out, err := sjson.DeleteBytes(body, "properties.networkSecurityGroup")
	if err != nil {
		return body
	}
	return out
}

var podRouteName = regexp.MustCompile(`^aks-nodepool1-\d{8}-vmss`)

// withoutUnknown removes unmanaged routes from every table.
func withoutUnknown(path string, body []byte) []byte {
	if !strings.Contains(path, "/routeTables/") {
		return body
	}
	table, err := inventory.DecodeRouteTable(body)
	if err != nil {
		return body
	}
	out, err := inventory.SetRoutes(body,
		slices.DeleteFunc(table.Routes(), func(r inventory.Route) bool {
			return !podRouteName.MatchString(r.Name)
		}))
	if err != nil {
		return body
	}
	return out
}

// credulous reads lists of NICs as complete, without the addresses that no cluster's table leads
// to: whatever is missing there is proven gone.
type credulous struct{ keeper.Azure }

func (b credulous) Read(ctx context.Context, s *inventory.Snapshot, w inventory.Wanted,
	o azure.ReadOptions) error {
	if err := b.Azure.Read(ctx, s, w, o); err != nil {
		return err
	}
	for _, id := range w.NICs {
		led := map[netip.Addr]bool{}
		for _, table := range s.Tables {
			for _, r := range table.Routes() {
				led[r.Hop] = led[r.Hop] || !strings.Contains(string(table.ID), "appgw")
			}
		}
		nics := &inventory.NICs{Holder: map[netip.Addr]string{}, Nodes: map[netip.Addr]string{}}
		for address, holder := range s.Known(id).NICs.Holder {
			node := s.Known(id).NICs.Nodes[address]
			if !led[address] {
				address = netip.AddrFrom4([4]byte{192, 0, 2, byte(len(nics.Holder))})
			}
			nics.Holder[address], nics.Nodes[address] = holder, node
		}
		s.Learn(id).NICs = nics
	}
	return nil
}

// belated reports the route tables of its first complete check in every result.
type belated struct {
	Keeper
	first map[string]*inventory.RouteTable
}

func (b *belated) Reconcile(ctx context.Context) (keeper.Result, error) {
	r, err := b.Keeper.Reconcile(ctx)
	if b.first == nil && len(r.Changes) > 0 {
		b.first = maps.Clone(r.Seen.Tables)
	}
	for key, table := range b.first {
		r.Seen.Tables[key] = table
	}
	return r, err
}

// restless writes every table that it knows again after each check.
type restless struct{ keeper.Azure }

func (r *restless) Read(ctx context.Context, s *inventory.Snapshot, w inventory.Wanted,
	o azure.ReadOptions) error {
	if err := r.Azure.Read(ctx, s, w, o); err != nil {
		return err
	}
	for _, key := range slices.Sorted(maps.Keys(s.Tables)) {
		if table := s.Tables[key]; table.ID.Name() == "appgw-rt" {
			first := true
			if _, err := r.Write(ctx, table.ID, func(d arm.Document) ([]byte, error) {
				if !first {
					return nil, nil
				}
				first = false
				return d.Raw, nil
			}, nil); err != nil {
				return err
			}
		}
	}
	return nil
}
