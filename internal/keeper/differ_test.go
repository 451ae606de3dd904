package keeper

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/emulator"
	"routekeeper.dev/routekeeper/internal/inventory"
)

// TestKeepersDiffer: one to three keepers with different configs, drawn at random, share a network
// of two kubenet clusters and of two overlay clusters in one subnet with one pod CIDR. Other
// writers put subnets and tables back as they once read them, take off and replace what subnets
// have, and delete resources and make them again; nodes come and go, configs change, keepers
// restart, and Azure refuses, throttles and hangs. Each write is judged before Azure gets it: it
// changes only what the config of its keeper asks for, no route of a node that is there goes, and
// neither does a route that no keeper and no cloud provider wrote. In the end the keepers rest, and
// each says what is not as its config asks. The variables: seeds.
func TestKeepersDiffer(t *testing.T) {
	t.Parallel()
	hours(t, func(t *testing.T, seed uint64) { newDiffer(t, seed).play(long(2 * time.Hour)) })
}

// differ is a network with keepers that differ.
type differ struct {
	*world
	by      *rand.Rand
	vnet    arm.ID
	sides   []*side
	guarded []arm.ID // subnets that configs can name
	keepers []*differing
	read    map[arm.ID][]object // what other writers once read
	theirs  int                 // of the next unmanaged route
	faults  []brewing
	story   []string
	n       int
	scaled  time.Time

	mu     sync.Mutex
	nodes  map[string][]inventory.Node // of overlay clusters, by cluster
	writes map[place]int               // by what they change, since the calm
	puts   int
}

// side is a cluster.
type side struct {
	name           string
	cluster, table arm.ID // an overlay cluster has no table
	subnet         arm.ID
	pods           netip.Prefix
	body           object      // to make it again
	gone           atomic.Bool // it was deleted
}

func (d *differ) id(kind, name string) arm.ID {
	return arm.ResourceID(emulator.DefaultSubscription, "d-rg", kind, name)
}

func (d *differ) table(name string) arm.ID { return d.id(arm.TypeRouteTable, name) }

func link(id arm.ID) object { return object{"id": string(id)} }

func newDiffer(t *testing.T, seed uint64) *differ {
	d := &differ{world: emptyWorld(t, slow), by: rand.New(rand.NewPCG(seed, 13)),
		read: map[arm.ID][]object{}, nodes: map[string][]inventory.Node{},
		writes: map[place]int{}}
	d.vnet = d.id(arm.TypeVNet, "vnet")
	d.put(d.vnet.Group(), object{})
	for _, name := range []string{"k-rt", "l-rt", "t0", "t1"} {
		d.putTable(d.table(name), "theirs-"+name+" 172.31.0.0/24 10.60.9.9")
	}
	for i, name := range []string{"e0", "e1"} {
		d.putTable(d.table(name), fmt.Sprintf("out 0.0.0.0/0 10.60.9.%d", 4+i),
			"theirs-"+name+" 172.31.0.0/24 10.60.9.9")
	}
	for i := range 2 {
		ip, n := d.id(arm.TypePublicIP, fmt.Sprint("ip", i)), fmt.Sprint(i)
		d.put(ip, object{"sku": object{"name": "Standard"}, "properties": object{
			"publicIPAllocationMethod": "Static"}})
		d.put(d.id(arm.TypeNATGateway, "nat"+n), object{"sku": object{"name": "Standard"},
			"properties": object{"publicIpAddresses": []any{link(ip)}}})
		d.put(d.id(arm.TypeSecurityGroup, "nsg"+n), object{"properties": object{}})
	}
	subnet := func(name, prefix, table string) object {
		p := object{"addressPrefix": prefix, "unknown": object{"to": "us"}}
		if table != "" {
			p["routeTable"] = link(d.table(table))
		}
		return object{"name": name, "properties": p}
	}
	d.put(d.vnet, object{"properties": object{
		"addressSpace": object{"addressPrefixes": []any{"10.60.0.0/16"}},
		"subnets": []any{subnet("k", "10.60.1.0/24", "k-rt"), subnet("l", "10.60.2.0/24", "l-rt"),
			subnet("o", "10.60.3.0/24", "e0"), subnet("gw", "10.60.9.0/24", "t0")}}})
	for _, name := range []string{"o", "gw"} {
		d.guarded = append(d.guarded, d.vnet.Child("subnets", name))
	}
	for _, name := range []string{"k", "l", "o", "p"} {
		s := &side{name: name, cluster: d.id(arm.TypeCluster, name),
			subnet: d.vnet.Child("subnets", name), table: d.table(name + "-rt"),
			pods: netip.MustParsePrefix("10.244.0.0/16")}
		profile := object{"networkPlugin": "kubenet", "podCidr": "10.244.0.0/16"}
		switch name {
		case "l":
			s.pods = netip.MustParsePrefix("10.245.0.0/16")
			profile["podCidr"] = s.pods.String()
		case "o", "p":
			s.subnet, s.table = d.guarded[0], ""
			s.pods = netip.MustParsePrefix("10.246.0.0/16")
			profile = object{"networkPlugin": "azure", "networkPluginMode": "overlay",
				"podCidr": s.pods.String()}
		}
		s.body = object{"properties": object{"networkProfile": profile,
			"agentPoolProfiles": []any{object{"name": "np", "count": 2, "mode": "System",
				"vnetSubnetID": string(s.subnet)}}}}
		d.put(s.cluster, s.body)
		d.sides = append(d.sides, s)
	}
	time.Sleep(2 * time.Minute)
	d.join()
	old := d.get(d.sides[0].table)["properties"].(object)["routes"].([]any)
	d.put(d.table("k-old"), object{"properties": object{"routes": append(old, route(
		strings.Replace(old[len(old)-1].(object)["name"].(string), "vmss00000", "vmss00007", 1),
		"10.244.77.0/24", "10.60.1.77"))}})
	for i := range []int{1, 2, 2, 3}[seed%4] {
		d.keepers = append(d.keepers, &differing{d: d, n: i})
		d.keepers[i].draw()
		d.keepers[i].start()
	}
	return d
}

// places are the resources that other writers change.
func (d *differ) places() []arm.ID {
	ids := []arm.ID{d.vnet, d.table("t0"), d.table("t1"), d.table("e0"), d.table("e1")}
	for _, name := range []string{"k", "l", "o", "gw"} {
		ids = append(ids, d.vnet.Child("subnets", name))
	}
	return ids
}

// machines are the machines of a cluster: address by name of the node.
func (d *differ) machines(s *side) map[string]netip.Addr {
	all := map[string]netip.Addr{}
	list := func(id arm.ID, version string) []any {
		status, body := d.op.Do(http.MethodGet, id, version, nil)
		var doc struct{ Value []any }
		if status != http.StatusOK || json.Unmarshal(body, &doc) != nil {
			return nil
		}
		return doc.Value
	}
	group := arm.GroupID(emulator.DefaultSubscription, fmt.Sprintf("MC_d-rg_%s_westeurope", s.name))
	for _, set := range list(group+"/providers/Microsoft.Compute/virtualMachineScaleSets",
		"2024-07-01") {
		id := arm.ID(set.(object)["id"].(string))
		for _, nic := range list(id+"/networkInterfaces", "2018-10-01") {
			machine := arm.ID(nic.(object)["id"].(string)).Parent()
			n, _ := strconv.Atoi(machine.Name())
			for _, c := range nic.(object)["properties"].(object)["ipConfigurations"].([]any) {
				text, _ := c.(object)["properties"].(object)["privateIPAddress"].(string)
				if a, err := netip.ParseAddr(text); err == nil {
					all[fmt.Sprintf("%s%06s", id.Name(), strconv.FormatInt(int64(n), 36))] = a
				}
			}
		}
	}
	return all
}

// join tells the Kubernetes APIs of overlay clusters about their machines.
func (d *differ) join() {
	for _, s := range d.sides {
		if s.table != "" {
			continue
		}
		machines := d.machines(s)
		d.mu.Lock()
		nodes := slices.DeleteFunc(slices.Clone(d.nodes[s.name]), func(n inventory.Node) bool {
			return machines[n.Name] != n.Addresses[0]
		})
		taken := map[byte]bool{}
		for _, n := range nodes {
			taken[n.PodCIDRs[0].Addr().As4()[2]] = true
			delete(machines, n.Name)
		}
		for _, name := range slices.Sorted(maps.Keys(machines)) {
			free := byte(0)
			for taken[free] {
				free++
			}
			taken[free] = true
			nodes = append(nodes, inventory.Node{Name: name, Ready: true, ReadySince: time.Now(),
				Addresses: []netip.Addr{machines[name]}, PodCIDRs: []netip.Prefix{
					netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 246, free, 0}), 24)}})
		}
		d.nodes[s.name] = nodes
		d.mu.Unlock()
		for _, k := range d.keepers {
			k.api(s.cluster).play(func([]inventory.Node) []inventory.Node {
				return slices.Clone(nodes)
			})
		}
	}
}

// living are the pod routes of a cluster's nodes that are there: next hops by prefix.
func (d *differ) living(s *side) map[netip.Prefix]netip.Addr {
	all := map[netip.Prefix]netip.Addr{}
	if s.gone.Load() {
		return all
	}
	if s.table == "" {
		d.mu.Lock()
		defer d.mu.Unlock()
		for _, n := range d.nodes[s.name] {
			all[n.PodCIDRs[0]] = n.Addresses[0]
		}
		return all
	}
	there := map[netip.Addr]bool{}
	for _, a := range d.machines(s) {
		there[a] = true
	}
	for prefix, hop := range nodeRoutes(d.raw(s.table)) {
		if there[hop] {
			all[prefix] = hop
		}
	}
	return all
}

func (d *differ) raw(id arm.ID) []byte {
	status, body := d.op.Do(http.MethodGet, id, api(id), nil)
	if status != http.StatusOK {
		return nil
	}
	return body
}

func (d *differ) tell(format string, args ...any) {
	d.story = append(d.story, time.Now().Format("02 15:04:05 ")+fmt.Sprintf(format, args...))
}

// happens makes something happen.
func (d *differ) happens() {
	d.n++
	places := d.places()
	id := places[d.by.IntN(len(places))]
	k := d.keepers[d.by.IntN(len(d.keepers))]
	s := d.sides[d.by.IntN(len(d.sides))]
	switch n := d.by.IntN(20); n {
	case 0, 1:
		d.tell("another writer reads %s", id.Short())
		if d.raw(id) != nil {
			d.read[id] = append(d.read[id], d.get(id))
		}
	case 2, 3, 4:
		if old := d.read[id]; len(old) > 0 {
			d.tell("another writer puts %s as it once read it", id.Short())
			doc := maps.Clone(old[d.by.IntN(len(old))])
			delete(doc, "etag")
			d.try(http.MethodPut, id, doc)
		}
	case 5, 6, 7:
		d.meddle()
	case 8:
		d.tell("an unmanaged route in %s", id.Short())
		if id.Is(arm.TypeRouteTable) && d.raw(id) != nil {
			d.theirs++
			doc := d.get(id)
			p := doc["properties"].(object)
			p["routes"] = append(p["routes"].([]any), route(fmt.Sprint("theirs", d.theirs),
				fmt.Sprintf("172.30.%d.0/24", d.theirs), "10.60.9.9"))
			d.try(http.MethodPut, id, doc)
		}
	case 9, 10:
		count := 1 + d.by.IntN(4)
		d.tell("scale %s to %d", s.name, count)
		if err := d.e.Scale(s.cluster, "np", count); err != nil {
			d.tell("%v", err)
		}
		d.scaled = time.Now()
	case 11, 12:
		d.tell("keeper %d gets another config", k.n)
		k.draw()
		k.mu.Lock()
		keeper, configs := k.k, k.configs
		k.mu.Unlock()
		keeper.Reload(configs)
	case 13:
		d.tell("keeper %d restarts", k.n)
		k.stop()
		time.Sleep(time.Duration(d.by.IntN(300)) * time.Second)
		k.start()
		d.join()
	case 14, 15:
		d.brew()
	case 17:
		if s = d.sides[1]; s.gone.Load() {
			d.again(s)
		} else if d.by.IntN(2) == 0 {
			d.tell("%s is deleted", s.name)
			s.gone.Store(d.try(http.MethodDelete, s.cluster, nil))
			d.scaled = time.Now()
		}
	case 16:
		name := []string{"t1", "e1"}[d.by.IntN(2)]
		d.tell("%s is deleted, or made again", name)
		if d.raw(d.table(name)) == nil {
			d.putTable(d.table(name))
		} else {
			d.try(http.MethodDelete, d.table(name), nil)
		}
	default:
		for _, k := range d.keepers {
			k.mu.Lock()
			keeper := k.k
			k.mu.Unlock()
			keeper.Wake(Event{Caller: "another"}, places...)
		}
	}
}

// again makes a deleted cluster again.
func (d *differ) again(s *side) {
	d.tell("%s is made again", s.name)
	d.try(http.MethodPut, s.subnet,
		object{"properties": object{"addressPrefix": "10.60.2.0/24", "routeTable": link(s.table)}})
	d.pass(10 * time.Second)
	s.gone.Store(!d.try(http.MethodPut, s.cluster, s.body))
	d.pass(2 * time.Minute)
}

// try makes a call that Azure may refuse, and reports whether it did not.
func (d *differ) try(method string, id arm.ID, doc object) bool {
	var sent []byte
	if doc != nil {
		if id.Is(arm.TypeCluster) {
			doc["location"] = "westeurope"
		}
		sent = []byte(raw(doc))
	}
	status, body := d.op.Do(method, id, api(id), sent)
	if status > 299 {
		d.tell("%d %.200s", status, body)
	}
	return status < 300
}

// meddle takes something off a subnet, or puts another one there.
func (d *differ) meddle() {
	subnets := d.places()[5:]
	id := subnets[d.by.IntN(len(subnets))]
	property := inventory.Properties[d.by.IntN(len(inventory.Properties))]
	doc := d.get(id)
	p := doc["properties"].(object)
	delete(p, string(property))
	n := fmt.Sprint(d.by.IntN(2))
	if d.by.IntN(3) == 0 {
		p[string(property)] = link(map[inventory.Property]arm.ID{
			inventory.PropertyTable: d.table("t" + n),
			inventory.PropertyNAT:   d.id(arm.TypeNATGateway, "nat"+n),
			inventory.PropertyGroup: d.id(arm.TypeSecurityGroup, "nsg"+n)}[property])
	}
	d.tell("another writer sets %s of %s to %v", property, id.Short(), p[string(property)])
	d.try(http.MethodPut, id, doc)
}

// brew makes something fail for a while.
func (d *differ) brew() {
	f := emulator.Fault{Count: -1, Method: []string{"", "GET", "PUT"}[d.by.IntN(3)],
		Path: []string{"routeTables", "virtualNetworks", "managedClusters", "subnets/",
			"networkInterfaces", "natGateways|networkSecurityGroups", "t0$", "."}[d.by.IntN(8)]}
	switch d.by.IntN(7) {
	case 0:
		f.Hold = []string{"before", "after"}[d.by.IntN(2)]
	case 1:
		f.Status, f.RetryAfter = 503, d.by.IntN(40)
	case 2:
		f.Status, f.RetryAfter = 429, d.by.IntN(40)
	case 3:
		f.Cut = []string{"before", "after"}[d.by.IntN(2)]
	case 4:
		f.Status, f.Rate, f.Seed = 500, 0.3, d.by.Uint64()
	case 5:
		f.Status, f.Code = 403, "AuthorizationFailed"
	case 6:
		f.Stale, f.Method = true, "GET"
	}
	until := time.Now().Add(time.Duration(1+d.by.IntN(300)) * time.Second)
	d.tell("fault %+v", f)
	d.faults = append(d.faults, brewing{until, d.inject(f), nil})
}

// pass lets time pass.
func (d *differ) pass(long time.Duration) {
	for end := time.Now().Add(long); time.Now().Before(end); {
		time.Sleep(min(20*time.Second, time.Until(end)))
		synctest.Wait()
		d.faults = slices.DeleteFunc(d.faults, func(f brewing) bool {
			if over := time.Now().After(f.until); over {
				f.fix()
				return true
			}
			return false
		})
		if time.Since(d.scaled) < 5*time.Minute { // AKS takes that long
			d.join()
		}
	}
}

func (d *differ) play(long time.Duration) {
	for begin := time.Now(); time.Since(begin) < long && !d.t.Failed(); {
		d.happens()
		d.pass(time.Second + time.Duration(d.by.Int64N(int64(3*time.Minute))))
	}
	if !d.t.Failed() {
		d.calm()
	}
	for _, k := range d.keepers {
		k.stop()
	}
	if d.t.Failed() {
		for _, line := range d.story[max(0, len(d.story)-40):] {
			d.t.Log(line)
		}
		for _, k := range d.keepers {
			d.t.Logf("keeper %d: %s\n%s", k.n, raw(k.configs),
				strings.Join(k.did[max(0, len(k.did)-40):], "\n"))
		}
	}
	d.t.Logf("%d keepers, %d things happened, %d changes written", len(d.keepers), d.n, d.puts)
}

// calm ends all faults and checks the end.
func (d *differ) calm() {
	for _, f := range d.faults {
		f.fix()
	}
	d.faults = nil
	for _, name := range []string{"t1", "e1"} {
		if d.raw(d.table(name)) == nil {
			d.putTable(d.table(name))
		}
	}
	if s := d.sides[1]; s.gone.Load() {
		d.again(s)
	}
	d.tell("calm")
	d.pass(10 * time.Minute)
	time.Sleep(2 * time.Hour)
	synctest.Wait()
	d.mu.Lock()
	d.writes = map[place]int{}
	d.mu.Unlock()
	time.Sleep(3 * time.Hour)
	synctest.Wait()
	// keepers that differ replace each other's ever more seldom: every hour, and on a node subnet
	// every 15 minutes
	for at, n := range d.writes {
		most := 3 * len(d.keepers)
		if arm.ID(at.resource).Is(arm.TypeSubnet) {
			most *= 4
		}
		if n > most {
			d.t.Errorf("at rest, the keepers change %v %d times in three hours", at, n)
		}
	}
	for _, k := range d.keepers {
		k.checkSaid()
	}
}
