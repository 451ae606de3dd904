//go:build linux

package kernel

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/inventory"
)

// How it works. A story is a check that writes, with the steps before it, in the small world of
// internal/plan (packets_test.go there). Tables 0 and 1 are the targets, each on a subnet with a
// machine; table 2 is what the node subnet has. Hops are 1 + the number of an address of the node
// subnet; prefixes 3 and 4 are the IPv6 ones of pod CIDRs 0 and 1. A deallocated machine is a
// node without an interface: nothing has its address.

type story struct {
	World         string
	Steps         []string
	Dual          bool
	Pods          []int  // 1 + the pod CIDR of the machine at each address, or 0
	Off           []bool // the machine at each address is deallocated
	Before, After storyState
	Excepted      [][]bool
}

type storyState struct {
	Hops     [][]int
	Delivers [][]bool
}

const nodeTable, cidrs = 2, 3

// stage is the network of the stories with the same machines.
type stage struct {
	*traffic
	tables []arm.ID
	known  map[string]map[[2]netip.Addr]sent
	differ []string // between trace and packets
	count  map[string]int
}

func (s *story) stage() *stage {
	w := &world{s: inventory.NewSnapshot(), dual: s.Dual}
	v := &inventory.VNet{Document: arm.Document{ID: resource("virtualNetworks", "v")},
		Prefixes: []netip.Prefix{prefix("10.0.0.0/16"), prefix("fd00::/48")}[:1+b2i(s.Dual)]}
	w.s.VNets[v.ID.Key()], w.s.InterfacesOf = v, []arm.ID{"/subscriptions/s"}
	st := &stage{known: map[string]map[[2]netip.Addr]sent{}, count: map[string]int{}}
	var subnet *inventory.Subnet
	for k := range nodeTable + 1 {
		subnet = w.subnet(v, fmt.Sprint("s", k), 0, k)
		subnet.RouteTable = resource("routeTables", "rt", k)
		if st.tables = append(st.tables, subnet.RouteTable); k < nodeTable {
			name := fmt.Sprint("vm", k)
			w.nic(resource("networkInterfaces", name), group+
				arm.ID("/providers/Microsoft.Compute/virtualMachines/"+name), subnet, 4, false)
		}
	}
	id := group + "/providers/Microsoft.ContainerService/managedClusters/c0"
	w.s.Clusters[id.Key()] = &inventory.Cluster{Document: arm.Document{ID: id}, Plugin: "kubenet",
		NodeResourceGroup: "MC_c0", Outbound: "loadBalancer",
		PodCIDRs: []netip.Prefix{prefix("10.244.0.0/16"), prefix("fd01::/48")}[:1+b2i(s.Dual)],
		Pools:    []inventory.Pool{{Name: "np", Subnet: subnet.ID}}}
	kube, away := &inventory.Kubernetes{}, []netip.Addr(nil)
	w.s.Kubernetes[id.Key()] = kube
	for a, c := range s.Pods {
		if c == 0 {
			continue
		}
		node, nic := w.node(0, a, 4+a, subnet, true)
		pod := inventory.Pod{Namespace: "x", Name: fmt.Sprint("p", c), Node: node.Name}
		for family := range subnet.Prefixes {
			p := podCIDR(0, c-1, family)
			node.PodCIDRs = append(node.PodCIDRs, p)
			pod.Addresses = append(pod.Addresses, nth(p, 4))
		}
		kube.Nodes, kube.Pods = append(kube.Nodes, node), append(kube.Pods, pod)
		if s.Off[a] {
			delete(w.s.Interfaces, nic.ID.Key())
			away = append(away, pod.Addresses...)
		}
	}
	st.define(w.s, s.Before)
	st.traffic = build(w.s).traffic()
	for _, a := range away {
		st.n.ends = append(st.n.ends, end{space: st.n.void, addr: a, pod: true})
	}
	return st
}

// define writes the tables of a state.
func (st *stage) define(s *inventory.Snapshot, state storyState) {
	nodes := s.Subnet(resource("virtualNetworks", "v").Child("subnets", "s2")).Prefixes
	for k, id := range st.tables {
		var routes []inventory.Route
		for c, hop := range state.Hops[k] {
			if p := podCIDR(0, c%cidrs, c/cidrs); hop > 0 {
				routes = append(routes, inventory.Route{Name: p.String(), Prefix: p,
					HopType: inventory.HopAppliance, Hop: nth(nodes[c/cidrs], 3+hop)})
			}
		}
		s.Tables[id.Key()] = (&inventory.RouteTable{
			Document: arm.Document{ID: id}}).WithRoutes(routes)
	}
}

// table is the number of the table that decides about packets of an end; -1 for a node's, and where
// nothing can send.
func (st *stage) table(e end) int {
	if e.machine == nil || e.machine.node != nil && !e.pod {
		return -1
	}
	return slices.Index(st.tables, e.machine.subnet.RouteTable)
}

// tries sends packets to each pod from each machine that is no node, and from the other pods.
func (st *stage) tries(state storyState) map[[2]netip.Addr]sent {
	key := fmt.Sprint(state.Hops)
	if st.known[key] != nil {
		return st.known[key]
	}
	st.define(st.n.s, state)
	st.n.rewire()
	var packets []packet
	for _, from := range st.n.ends {
		for _, to := range st.n.ends {
			if to.pod && st.table(from) >= 0 && from.machine != to.machine &&
				from.addr.Is4() == to.addr.Is4() {
				packets = append(packets, packet{from, to, "tcp", ports[0]})
			}
		}
	}
	st.known[key] = map[[2]netip.Addr]sent{}
	all := st.sendAll(packets)
	for _, r := range all {
		st.known[key][[2]netip.Addr{r.from.addr, r.to.addr}] = r
	}
	st.differ = append(st.differ, st.referee(all, st.count)...)
	return st.known[key]
}

// play sends packets before and after the writes of a story, and says what is wrong.
func (st *stage) play(s *story) (wrong []string) {
	before, after := st.tries(s.Before), st.tries(s.After)
	for key, was := range before {
		k, c, now := st.table(was.from), 0, after[key]
		for !podCIDR(0, c%cidrs, c/cidrs).Contains(was.to.addr) {
			c++
		}
		for what, is := range map[string]bool{
			"a write loses packets": was.there.arrived && !now.there.arrived && !s.Excepted[k][c],
			"a write loses answers": was.there.arrived && was.back.arrived &&
				!now.back.arrived && !s.Excepted[k][c],
			"before, the explorer": was.there.arrived != s.Before.Delivers[k][c],
			"after, the explorer":  now.there.arrived != s.After.Delivers[k][c]} {
			if is {
				wrong = append(wrong, fmt.Sprintf("%s: %s to %s, table %d, prefix %d\nin %s after\n"+
					"\t%s\n%v\n%+v\n%+v", what, was.from.addr, was.to.addr, k, c, s.World,
					strings.Join(s.Steps, "\n\t"), s.Pods, s.Before, s.After))
			}
		}
	}
	return wrong
}

// TestStories sends packets through stories of internal/plan: no write loses any that arrived, what
// arrives is what TestEveryStep takes for delivered, and trace says the same. Each of the
// worlds there has ROUTEKEEPER_STORIES of them.
func TestStories(t *testing.T) {
	need(t)
	tell := exec.Command("go", "test", "-count=1", "-vet=off", "-run", "^TestPackets$")
	tell.Dir, tell.Env = "../../plan", os.Environ()
	if os.Getenv("ROUTEKEEPER_STORIES") == "" {
		tell.Env = append(tell.Env, "ROUTEKEEPER_STORIES=30")
	}
	told, err := tell.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, told)
	}
	stages := map[string][]*story{} // by what differs between their networks
	for line := range strings.Lines(string(told)) {
		if s := (&story{}); strings.HasPrefix(line, "{") {
			must(json.Unmarshal([]byte(line), s))
			key := fmt.Sprint(s.Dual, s.Pods, s.Off)
			stages[key] = append(stages[key], s)
		}
	}
	var lock sync.Mutex
	var workers sync.WaitGroup
	count, kinds, packets, stories := map[string]int{}, map[string]int{}, 0, 0
	rest := make(chan []*story, len(stages))
	for _, all := range stages {
		rest <- all
	}
	close(rest)
	for range runtime.NumCPU() {
		workers.Go(func() {
			runtime.LockOSThread() // and never unlocked: the thread ends with the goroutine
			for all := range rest {
				st := all[0].stage()
				var wrong []string
				for _, s := range all {
					wrong = append(wrong, st.play(s)...)
				}
				lock.Lock()
				for _, sent := range st.known {
					packets += len(sent)
				}
				stories += len(all)
				for _, what := range append(wrong, st.differ...) {
					kind, _, _ := strings.Cut(what, ":")
					if kinds[kind]++; kinds[kind] <= 2 {
						t.Error(what)
					}
				}
				for verdict, n := range st.count {
					count[verdict] += n
				}
				lock.Unlock()
				st.close()
				st.n.close()
			}
		})
	}
	workers.Wait()
	t.Logf("%d stories, %d networks, %d packets; trace: %v; wrong: %v", stories, len(stages),
		packets, count, kinds)
}
