package cli

import (
	"context"
	"errors"
	"fmt"
	"time"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/azure"
	"routekeeper.dev/routekeeper/internal/build"
	"routekeeper.dev/routekeeper/internal/finding"
	"routekeeper.dev/routekeeper/internal/hello"
	"routekeeper.dev/routekeeper/internal/inventory"
	"routekeeper.dev/routekeeper/internal/report"
	"routekeeper.dev/routekeeper/internal/trace"
)

// prove --packets. How it works: once a second, pods of the demo (cluster hello) call each other,
// and machines in the subnets that must reach pods. The command removes the route table from the
// first node subnet, waits until a keeper has put it back, and counts the lost calls. If no keeper
// does so in time, or anything fails, the command puts the table back itself.

// Calls are counted this long before the strip, and after the repair.
const packetsAround = 5 * time.Second

type packetsTrial struct {
	client    *azure.Client
	demo      *hello.Demo
	cluster   *inventory.Cluster
	subnet    arm.ID
	table     arm.ID
	within    time.Duration // how long the keeper has to repair
	lostAfter time.Duration // how long a call may take
	now       func(string)
}

func provePackets(ctx context.Context, a *app, o proveOptions) (failed error) {
	h := helloOptions{namespace: "routekeeper-packets", image: o.image, timeout: 3 * time.Minute}
	h.names, h.kubeconfig, h.trusted = []string{o.packets}, o.kubeconfig, o.trusted
	h.subscription, h.withoutRights, h.allMachines = o.subscription, true, true
	if err := h.check(a); err != nil {
		return err
	}
	if o.lostAfter <= 0 || o.lostAfter > hello.MostWithin {
		return fmt.Errorf("--lost-after: %s is out of range, expected more than 0 and at most %s",
			o.lostAfter, hello.MostWithin)
	}
	w, format, style, err := a.output()
	if err != nil {
		return err
	}
	progress := a.progress(ctx, "reading the network")
	defer progress.stop()
	e, err := examineAzure(ctx, a, h.examineOptions, progress)
	if err != nil {
		return err
	}
	t := packetsTrial{client: e.client, cluster: e.Snapshot.Cluster(e.Clusters[0]),
		within: o.repairWithin, lostAfter: o.lostAfter, now: progress.now}
	if err := t.choose(ctx, e.Snapshot); err != nil {
		return fmt.Errorf("nothing was written: %w", err)
	}
	progress.stop()
	say(a.err, "This cuts pods of %s off: it takes route table %s from subnet %s, and waits up "+
		"to %s for a keeper to put it back. Then, or if it fails, prove puts it back itself. If "+
		"prove is killed meanwhile: %s\n", t.cluster.ID.Name(), t.table.Name(), t.subnet.Short(),
		report.Duration(t.within), t.back())
	if o.dryRun {
		say(a.err, "nothing was written\n")
		return nil
	}
	if !o.yes {
		if err := a.unlessYes(a.ask("Try this?")); err != nil {
			return err
		}
	}
	if t.demo, err = h.demo(ctx, t.cluster); err != nil {
		return err
	}
	recording, err := o.open()
	if err != nil {
		return err
	}
	defer recording.Close()
	progress = a.progress(ctx, "deploying the demo")
	defer progress.stop()
	t.now, t.demo.Tell = progress.now, progress.now
	defer func() { failed = removeDemo(ctx, a, t.demo, failed) }()
	result, err := t.run(ctx, e.Snapshot, h.timeout)
	if err != nil {
		return err
	}
	result.Emulator = a.emulatorDir != ""
	progress.stop()
	err = errors.Join(result.Write(recording, report.JSON, style, "", ""),
		result.Write(w, format, style, t.cluster.ID.Name(), recording.Name()))
	if err == nil && result.RepairedBy != "keeper" {
		return attention
	}
	return err
}

// choose finds the subnet to strip. It refuses a cluster that cluster create did not make, because
// the command cuts off its pods.
func (t *packetsTrial) choose(ctx context.Context, s *inventory.Snapshot) error {
	id := t.cluster.ID
	doc, err := t.client.Find(ctx, id)
	if err != nil {
		return err
	}
	of := build.Cluster{Group: id.Group().Name(), Name: id.Name()}
	if doc == nil || !of.Owns(*doc) {
		return fmt.Errorf("%s was not made by routekeeper cluster create; its pods would be cut "+
			"off. Make a cluster for the trial: %s", id.Name(),
			finding.Command("routekeeper cluster create NAME --blueprint kubenet"))
	}
	for _, subnet := range s.NodeSubnetIDs(t.cluster) {
		if found := s.Subnet(subnet); found != nil && found.RouteTable != "" {
			t.subnet, t.table = subnet, found.RouteTable
			return nil
		}
	}
	return fmt.Errorf("no node subnet of %s has a route table", id.Name())
}

// pairs returns the calls that need routes: to pods on other nodes, and to machines in other
// subnets.
func (t *packetsTrial) pairs(ctx context.Context, s *inventory.Snapshot, limit time.Duration) (
	pairs []hello.Pair, result report.Packets, err error) {
	pods, err := t.demo.Wait(ctx, limit)
	if err != nil {
		return nil, result, err
	}
	nodes := map[string]bool{}
	for _, from := range pods {
		if !from.Ready || !from.Address.IsValid() {
			return nil, result, fmt.Errorf("pod %s was not ready within %s (%s)", from.Name, limit,
				from.Why)
		}
		nodes[from.Node] = true
		for _, to := range pods {
			if to.Node != from.Node && to.Address.IsValid() {
				pairs = append(pairs, hello.Pair{From: from, To: to.Address})
			}
		}
	}
	result = report.Packets{Plugin: t.cluster.PluginName(), Nodes: len(nodes), Pods: len(pods)}
	tracer := trace.New(s, trace.Options{Cluster: t.cluster.ID})
	for _, subnet := range tracer.Targets(t.cluster.ID) {
		machine := firstOf(s, subnet.ID, t.cluster)
		if !machine.IsValid() {
			continue
		}
		result.Machines++
		for _, from := range pods {
			pairs = append(pairs, hello.Pair{From: from, To: machine})
		}
	}
	if result.Pairs = len(pairs); len(pairs) == 0 {
		return nil, result, errors.New("all pods are on one node, and no machine is in a subnet " +
			"that must reach them: nothing needs a route")
	}
	return pairs, result, nil
}

// run makes calls, strips the subnet, waits for the repair, and counts.
func (t *packetsTrial) run(ctx context.Context, s *inventory.Snapshot, limit time.Duration) (
	report.Packets, error) {
	if err := t.demo.Deploy(ctx); err != nil {
		return report.Packets{}, err
	}
	pairs, result, err := t.pairs(ctx, s, limit)
	if err != nil {
		return result, err
	}
	t.now("calling before the strip")
	calling, stop := context.WithTimeout(ctx, packetsAround)
	before := t.demo.Watch(calling, pairs, t.lostAfter)
	stop()
	if result.Before = before.Sent; before.Lost > 0 || before.Sent == 0 {
		return result, fmt.Errorf("%d of %s were lost before anything was written; nothing was "+
			"stripped: %s says why", before.Lost, finding.Count(before.Sent, "call"),
			t.hello())
	}
	counted, calling := make(chan hello.Loss, 1), ctx
	calling, stop = context.WithCancel(ctx)
	defer stop()
	go func() { counted <- t.demo.Watch(calling, pairs, t.lostAfter) }()
	t.now("stripping " + t.subnet.Short())
	stripped, repaired, by, err := t.strip(ctx)
	if err != nil {
		return result, err
	}
	t.now("calling after the repair")
	if err := azure.Pause(ctx, packetsAround); err != nil {
		return result, err
	}
	stop()
	loss := <-counted
	result.Sent, result.Lost, result.Unasked = loss.Sent, loss.Lost, loss.Unasked
	if loss.Lost > 0 {
		// A call that began before the strip may be lost, too.
		result.FirstLost, result.LastLost = max(0, loss.First.Sub(stripped).Seconds()),
			max(0, loss.Last.Sub(stripped).Seconds())
	}
	result.RepairedIn, result.RepairedBy = repaired.Sub(stripped).Seconds(), by
	return result, nil
}

// strip removes the table from the subnet and waits until it is back. It always returns with the
// table in place: if the keeper does not put it back, strip does.
func (t *packetsTrial) strip(ctx context.Context) (stripped, repaired time.Time, by string,
	failed error) {
	asked := false
	written, err := t.client.Write(ctx, t.subnet, func(doc arm.Document) ([]byte, error) {
		if asked { // a keeper may have repaired it already: strip it only once
			return nil, nil
		}
		asked, stripped = true, time.Now()
		return inventory.WithoutProperty(doc.Raw, inventory.PropertyTable)
	}, nil)
	if err == nil && written.Sent == nil {
		err = errors.New("nothing was stripped, because another writer wrote the subnet at the " +
			"same moment: run it again")
	}
	if err != nil {
		return stripped, repaired, "", errors.Join(err, t.putBack(ctx))
	}
	t.now("waiting for a keeper to put the table back")
	for deadline := time.Now().Add(t.within); time.Now().Before(deadline); {
		if err := azure.Pause(ctx, time.Second); err != nil {
			return stripped, repaired, "", errors.Join(err, t.putBack(ctx))
		}
		// A failed read is repeated, because only the table counts.
		if has, err := t.has(ctx); err == nil && has {
			return stripped, time.Now(), "keeper", nil
		}
	}
	if err := t.putBack(ctx); err != nil {
		return stripped, repaired, "", err
	}
	if has, err := t.has(ctx); err != nil || !has {
		return stripped, repaired, "", errors.Join(err, fmt.Errorf("%s has another route table "+
			"than %s now: another writer put it there", t.subnet.Short(), t.table.Name()))
	}
	return stripped, time.Now(), "prove", nil
}

// has reports whether the subnet has the table.
func (t *packetsTrial) has(ctx context.Context) (bool, error) {
	doc, err := t.client.Find(ctx, t.subnet)
	if err != nil || doc == nil {
		return false, err
	}
	subnet, err := inventory.DecodeSubnet(doc.Raw)
	return err == nil && subnet.RouteTable.Equal(t.table), err
}

// putBack puts the table on the subnet if it has none, even after an interrupt.
func (t *packetsTrial) putBack(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), removeTime)
	defer cancel()
	_, err := t.client.Write(ctx, t.subnet, func(doc arm.Document) ([]byte, error) {
		if subnet, err := inventory.DecodeSubnet(doc.Raw); err != nil || subnet.RouteTable != "" {
			return nil, err
		}
		return inventory.SetProperties(doc.Raw,
			map[inventory.Property]arm.ID{inventory.PropertyTable: t.table})
	}, nil)
	if err != nil {
		return fmt.Errorf("%s may be without its route table: %w; put it back: %s",
			t.subnet.Short(), err, t.back())
	}
	return nil
}

// back returns the command that puts it back by hand.
func (t *packetsTrial) back() finding.CommandLine {
	return finding.Command("az network vnet subnet update --ids %s --route-table %s", t.subnet,
		t.table)
}

// hello returns the command that says why calls are lost.
func (t *packetsTrial) hello() finding.CommandLine {
	return finding.Command("routekeeper cluster hello %s", t.cluster.ID.Name())
}
