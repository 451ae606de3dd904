package cli

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/emulator"
	"routekeeper.dev/routekeeper/internal/emulator/emulatortest"
	"routekeeper.dev/routekeeper/internal/inventory"
)

const (
	fleetSubscriptions = 10
	fleetNodes         = 20
	fleetInterval      = 10 * time.Second
	fleetPage          = 100 // emulator.Options
)

// BenchmarkFleet runs the built program in a separate process. It manages 1,000 clusters of 20
// nodes in 10 subscriptions of an emulator with Azure's token buckets, over HTTPS.
// ROUTEKEEPER_FLEET changes the number of clusters. With ROUTEKEEPER_FLEET_FIREWALLS each target
// has a default route to an Azure Firewall of its own, which spec.egress enforces. It takes about
// two minutes:
//
//	go test ./internal/cli -run '^$' -bench Fleet -benchtime 1x
//
// It reports the first checks, which fill the targets. Then it reports, at rest, ARM reads per
// minute, the minimum of list pages, the number of GETs that would show the same, the processor
// time as a share of one core, and the resident memory. Finally it reports how long after a strip
// the table is back: found by a poll, and by an event.
func BenchmarkFleet(b *testing.B) {
	clusters := 1000
	if text := os.Getenv("ROUTEKEEPER_FLEET"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 {
			b.Fatalf("ROUTEKEEPER_FLEET: %q is not a number of clusters", text)
		}
		clusters = n
	}
	for b.Loop() {
		f := newFleet(b, clusters)
		f.start()
		f.atRest(time.Duration(min(6, 3+clusters/200)) * fleetInterval)
		f.repairs()
		f.stop()
	}
}

// fleet is a fleet, and the program that manages it.
type fleet struct {
	b       *testing.B
	e       *emulator.Emulator
	members []emulatortest.Member
	az, dir string
	listen  string
	run     *exec.Cmd
	// firewalls is the number of routes to a firewall in each target, 0 or 1.
	firewalls int
}

// firewall builds the firewall to which the default route of a member's target leads.
func (f *fleet) firewall(m emulatortest.Member, at string) {
	type object = map[string]any
	op, err := f.e.Client(emulatortest.Operator)
	if err != nil {
		f.b.Fatal(err)
	}
	vnet := m.Nodes.Parent()
	_, body := op.Do(http.MethodGet, vnet, "2025-05-01", nil)
	var doc struct{ Properties object }
	if err := json.Unmarshal(body, &doc); err != nil {
		f.b.Fatal(err)
	}
	space := doc.Properties["addressSpace"].(object)
	space["addressPrefixes"] = append(space["addressPrefixes"].([]any), at+"0/24")
	doc.Properties["subnets"] = append(doc.Properties["subnets"].([]any), object{
		"name": "AzureFirewallSubnet", "properties": object{"addressPrefix": at + "0/26"}})
	for _, put := range []struct {
		id         arm.ID
		properties object
	}{
		{vnet, doc.Properties},
		{firewallOf(m), object{"ipConfigurations": []any{object{"name": "ip", "properties": object{
			"subnet": object{"id": string(vnet.Child("subnets", "AzureFirewallSubnet"))}}}}}},
		{m.Target.Child("routes", "out"), object{"addressPrefix": "0.0.0.0/0",
			"nextHopType": inventory.HopAppliance, "nextHopIpAddress": at + "4"}},
	} {
		if err := op.Put(put.id, "2025-05-01",
			object{"location": "westeurope", "properties": put.properties}); err != nil {
			f.b.Fatal(err)
		}
	}
}

func firewallOf(m emulatortest.Member) arm.ID {
	return arm.ResourceID(m.Cluster.Subscription(), m.Cluster.ResourceGroup(), arm.TypeFirewall,
		"fw")
}

func newFleet(b *testing.B, clusters int) *fleet {
	f := &fleet{b: b, dir: b.TempDir()}
	subscriptions := emulatortest.Subscriptions(fleetSubscriptions)
	// Building it takes more writes than Azure allows at once. The keeper needs fewer: one for each
	// target.
	f.e = emulatortest.New(b, emulator.Options{Subscriptions: subscriptions, LogBodies: 1,
		Buckets: emulator.Buckets{Writes: emulator.Bucket{Size: 1e9, PerSecond: 10}}})
	f.members = emulatortest.BuildFleet(b, f.e, subscriptions, clusters, fleetNodes)
	if os.Getenv("ROUTEKEEPER_FLEET_FIREWALLS") != "" {
		f.firewalls = 1
		for i, m := range f.members {
			if m.Target != "" {
				f.firewall(m, fmt.Sprintf("10.%d.%d.", 50+i/256, i%256))
			}
		}
	}
	f.az = filepath.Join(f.dir, "az")
	server, err := f.e.Start(f.az, "", "")
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { server.Close() })
	return f
}

// config writes the config.
func (f *fleet) config() string {
	var text bytes.Buffer
	for i, m := range f.members {
		fmt.Fprintf(&text, "---\napiVersion: routekeeper.dev/v1alpha1\nkind: "+
			"ClusterRoutes\nmetadata: {name: %s}\nspec:\n  clusterID: %s\n", m.Cluster.Name(),
			m.Cluster)
		if m.Target != "" {
			fmt.Fprintf(&text, "  targets: [{routeTableID: %s}]\n  guard: {subnets: [{subnetID: "+
				"%s, routeTableID: %s}]}\n", m.Target, m.Gateway, m.Target)
		}
		if m.Target != "" && f.firewalls > 0 {
			fmt.Fprintf(&text, "  egress: {routeTableID: %s, mode: Enforce, firewallID: %s, "+
				"routes: [{addressPrefix: 0.0.0.0/0, nextHopIPAddress: 10.%d.%d.4}]}\n", m.Target,
				firewallOf(m), 50+i/256, i%256)
		}
	}
	path := filepath.Join(f.dir, "routes.yaml")
	if err := os.WriteFile(path, text.Bytes(), 0o600); err != nil {
		f.b.Fatal(err)
	}
	return path
}

// start starts the program, and waits for the end of its first checks: all targets have all routes.
func (f *fleet) start() {
	binary := filepath.Join(f.dir, "routekeeper-built")
	if runtime.GOOS == "windows" {
		binary += ".exe"
	}
	if out, err := exec.Command("go", "build", "-o", binary,
		"routekeeper.dev/routekeeper").CombinedOutput(); err != nil {
		f.b.Fatalf("building: %v\n%s", err, out)
	}
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		f.b.Fatal(err)
	}
	f.listen = free.Addr().String()
	free.Close()
	f.run = exec.Command(binary, "--emulator", f.az, "run", "-f", f.config(),
		"--max-changes-per-minute", "0", "--interval", fleetInterval.String(), "--listen", f.listen,
		"-o", "json")
	results, err := f.run.StdoutPipe()
	if err != nil {
		f.b.Fatal(err)
	}
	log, err := os.Create(filepath.Join(f.dir, "log"))
	if err != nil {
		f.b.Fatal(err)
	}
	f.b.Cleanup(func() { log.Close() })
	f.run.Stderr = log
	began := time.Now()
	if err := f.run.Start(); err != nil {
		f.b.Fatal(err)
	}
	f.b.Cleanup(func() {
		_ = f.run.Process.Kill()
		if f.b.Failed() {
			text, _ := os.ReadFile(log.Name())
			f.b.Logf("its log ends so:\n%s", text[max(0, len(text)-4000):])
		}
	})
	in := bufio.NewReader(results)
	written, told, reads, writes := 0, 0, 0, 0
	// each group of clusters that share something writes in its own check
	for ; written < f.missing(); told++ {
		var r struct {
			Changes []struct{ State string }
			ARM     struct{ Reads, Writes int }
		}
		line, err := in.ReadBytes('\n')
		if err != nil || json.Unmarshal(line, &r) != nil {
			f.b.Fatalf("of %d routes %d are written: %v %.300s", f.missing(), written, err, line)
		}
		for _, c := range r.Changes {
			if c.State == "done" {
				written++
			}
		}
		reads, writes = reads+r.ARM.Reads, writes+r.ARM.Writes
	}
	f.b.ReportMetric(time.Since(began).Seconds(), "s/first-results")
	f.b.Logf("its first %d checks: %d reads, %d writes", told, reads, writes)
	go func() { // without waiting for the others
		for err == nil {
			_, err = in.ReadBytes('\n')
		}
	}()
	f.agrees()
}

// missing is how many routes have to be written at first.
func (f *fleet) missing() (routes int) {
	for _, m := range f.members {
		if m.Target != "" {
			routes += fleetNodes
		}
	}
	return routes
}

// agrees checks that every target has a route for each node, and its other route.
func (f *fleet) agrees() {
	op, err := f.e.Client(emulatortest.Operator)
	if err != nil {
		f.b.Fatal(err)
	}
	for _, m := range f.members {
		if m.Target == "" {
			continue
		}
		_, body := op.Do(http.MethodGet, m.Target, "2025-05-01", nil)
		if table, err := inventory.DecodeRouteTable(body); err != nil ||
			len(table.Routes()) != fleetNodes+1+f.firewalls {
			f.b.Fatalf("%s does not hold what it should: %v %.300s", m.Target.Short(), err, body)
		}
	}
}

// reads returns the reads and polls since a request, both per minute: a poll lists the networks of
// each subscription once.
func (f *fleet) reads(since int, span time.Duration) (reads, polls float64) {
	lists, pages := map[string]int{}, map[string]int{}
	for _, m := range f.members {
		pages[m.Cluster.Subscription()]++
	}
	for _, r := range f.e.Requests(since) {
		switch {
		case r.Principal != emulatortest.Keeper.Name:
			continue
		case r.Method != http.MethodGet:
			f.b.Errorf("%s %s at rest", r.Method, r.Path)
			continue
		}
		reads++
		if id, err := arm.ParseID(strings.TrimSuffix(r.Path,
			"/providers/Microsoft.Network/virtualNetworks")); err == nil &&
			id.Is(arm.TypeSubscription) {
			lists[id.Subscription()]++
		}
	}
	polls = math.Inf(1)
	for sub, n := range pages {
		polls = min(polls, float64(lists[sub])/float64((n+fleetPage-1)/fleetPage))
	}
	if polls == 0 {
		f.b.Fatal("it did not poll every subscription")
	}
	return reads / span.Minutes(), polls / span.Minutes()
}

// atRest observes the program for a while.
func (f *fleet) atRest(span time.Duration) {
	// one poll, in which the keeper learns what lists cost, and half an interval more
	time.Sleep(fleetInterval * 3 / 2)
	// whole intervals, from between two polls to between two polls
	span = span.Round(fleetInterval)
	since, before := f.e.LastRequest(), usage(f.b, f.run.Process.Pid)
	time.Sleep(span)
	after := usage(f.b, f.run.Process.Pid)
	reads, polls := f.reads(since, span)
	pages, each := f.fewest()
	const due = float64(time.Minute / fleetInterval) // polls per minute
	f.b.ReportMetric(polls, "polls/min")
	f.b.ReportMetric(reads, "reads/min")
	f.b.ReportMetric(due*pages, "reads/min-floor")
	f.b.ReportMetric(due*each, "reads/min-by-GETs")
	if after != nil {
		f.b.ReportMetric(100*(after.cpu-before.cpu).Seconds()/span.Seconds(), "%core-at-rest")
		f.b.ReportMetric(after.resident, "MiB-resident")
		f.b.ReportMetric(after.peak, "MiB-peak")
	}
}

// fewest returns the minimum of list pages of a poll, and how many GETs would show the same:
// networks and tables, and the clusters every fifth minute.
func (f *fleet) fewest() (pages, gets float64) {
	vnets, tables := map[string]int{}, map[string]int{}
	for _, m := range f.members {
		sub := m.Cluster.Subscription()
		vnets[sub]++
		tables[sub]++
		if m.Target != "" {
			tables[sub]++
		}
	}
	perPoll := float64(fleetInterval) / float64(defaultClusterInterval)
	for sub, n := range vnets {
		pages += float64((n+fleetPage-1)/fleetPage)*(1+perPoll) +
			float64((tables[sub]+fleetPage-1)/fleetPage)
		gets += float64(n)*(1+perPoll) + float64(tables[sub])
	}
	return pages, gets
}

// repairs strips subnets and waits until they have their tables again.
func (f *fleet) repairs() {
	const strips = 3
	worst := func(wake bool) float64 {
		var all []time.Duration
		for range strips {
			m := f.members[rand.IntN(len(f.members))]
			if !wake {
				time.Sleep(rand.N(fleetInterval))
			}
			since, began := f.e.LastRequest(), time.Now()
			emulatortest.Strip(f.b, f.e, m.Nodes)
			if wake {
				f.event(m.Nodes)
			}
			for !f.repaired(since, m.Nodes) {
				if time.Since(began) > 3*fleetInterval {
					f.b.Fatalf("%s has no table %s after it was stripped", m.Nodes.Short(),
						time.Since(began))
				}
				time.Sleep(10 * time.Millisecond)
			}
			all = append(all, time.Since(began))
		}
		return slices.Max(all).Seconds()
	}
	f.b.ReportMetric(worst(false), "s/repair-by-poll")
	f.b.ReportMetric(worst(true), "s/repair-by-event")
}

// repaired reports whether the program has written a subnet since a request, and the subnet has a
// table.
func (f *fleet) repaired(since int, subnet arm.ID) bool {
	return slices.ContainsFunc(f.e.Requests(since), func(r emulator.Request) bool {
		return r.Method == http.MethodPut && r.Principal == emulatortest.Keeper.Name &&
			strings.EqualFold(r.Path, string(subnet)) && r.Status == http.StatusOK
	}) && emulatortest.TableOf(f.b, f.e, subnet) != ""
}

// event posts an event like Event Grid.
func (f *fleet) event(id arm.ID) {
	body := fmt.Sprintf(
		`{"specversion":"1.0","id":"1","source":"/subscriptions/%s","type":"Microsoft.Resources.ResourceWriteSuccess","subject":%q,"data":{"resourceUri":%q}}`, id.Subscription(), id, id)
	response, err := http.Post("http://"+f.listen+"/events", "application/cloudevents+json",
		strings.NewReader(body))
	if err != nil {
		f.b.Fatal(err)
	}
	response.Body.Close()
	if response.StatusCode != http.StatusOK {
		f.b.Fatalf("the event: %s", response.Status)
	}
}

func (f *fleet) stop() {
	if err := f.run.Process.Signal(os.Interrupt); err != nil {
		_ = f.run.Process.Kill() // Windows
	}
	_ = f.run.Wait()
}

// used is what a process has used so far.
type used struct {
	cpu            time.Duration
	resident, peak float64 // MiB
}

// usage reads Linux's data about a process; nil on other systems.
func usage(b *testing.B, pid int) *used {
	if runtime.GOOS != "linux" {
		b.Logf("memory and processor time are NOT measured: they are read from /proc, which %s "+
			"does not have", runtime.GOOS)
		return nil
	}
	var u used
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		b.Fatal(err)
	}
	for line := range strings.Lines(string(status)) {
		name, rest, _ := strings.Cut(line, ":")
		kib, _ := strconv.ParseFloat(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 64)
		switch name {
		case "VmRSS":
			u.resident = kib / 1024
		case "VmHWM":
			u.peak = kib / 1024
		}
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		b.Fatal(err)
	}
	// from the third field on
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	// utime and stime, in hundredths of a second on every Linux that Go runs on
	for _, ticks := range fields[11:13] {
		n, err := strconv.Atoi(ticks)
		if err != nil {
			b.Fatal(err)
		}
		u.cpu += time.Duration(n) * 10 * time.Millisecond
	}
	return &u
}
