package cli

import (
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"path/filepath"
	"sync"
	"time"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/azure"
	"routekeeper.dev/routekeeper/internal/emulator"
	"routekeeper.dev/routekeeper/internal/emulator/kubernetes"
	"routekeeper.dev/routekeeper/internal/inventory"
	"routekeeper.dev/routekeeper/internal/survey"
	"routekeeper.dev/routekeeper/internal/trace"
)

// playKubernetes gives the emulator's clusters real API servers, with simulated nodes and pods.
func playKubernetes(e *emulator.Emulator, o emulatorOptions,
	log *slog.Logger) (*kubernetes.Kubernetes, error) {
	binaries, err := kubernetes.Find(o.apiServer, o.etcd)
	if err != nil {
		return nil, err
	}
	network := &simulatedNetwork{dir: o.dir, seen: map[string]seenNetwork{}}
	return kubernetes.Join(e, kubernetes.Options{
		Binaries: binaries, Folder: filepath.Join(o.dir, "kubernetes"), Fresh: !e.Restored(),
		Log: log, Way: network.way,
	})
}

// simulatedNetwork decides which packets of simulated pods arrive. It reads the emulator's network
// as a client, and traces the packets.
type simulatedNetwork struct {
	dir string // of emulator.json

	mu   sync.Mutex
	seen map[string]seenNetwork // by the cluster's key
}

type seenNetwork struct {
	at     time.Time // when reading began
	port   int
	tracer *trace.Tracer
}

// networkAge is how old a packet's network may be when the packet is sent, so that calls at the
// same time share one read.
const networkAge = time.Second

func (p *simulatedNetwork) way(ctx context.Context, packet kubernetes.Packet) (lost string,
	err error) {
	asked := time.Now()
	p.mu.Lock() // a tracer caches its results
	defer p.mu.Unlock()
	t, err := p.read(ctx, packet, asked)
	if err != nil {
		return "", fmt.Errorf("the network was not read: %w", err)
	}
	_, lost, err = thereAndBack(t, packet.From.String(), packet.To.String())
	return lost, err
}

// thereAndBack traces a packet and its answer. It returns the verdict on the first one that does
// not arrive, with the reason.
func thereAndBack(t *trace.Tracer, from, to string) (trace.Verdict, string, error) {
	ways, err := waysBetween(t, from, to)
	if err != nil {
		return trace.Unknown, "", err
	}
	for _, w := range []trace.Way{ways.There, ways.Back} {
		if w.Verdict != trace.Delivered {
			return w.Verdict, fmt.Sprintf("%s -> %s: %s: %s", w.From, w.To, w.Verdict, w.Why), nil
		}
	}
	return trace.Delivered, "", nil
}

// read reads the network of a packet's cluster, unless another read began after the packet was
// sent, or just before.
func (p *simulatedNetwork) read(ctx context.Context, packet kubernetes.Packet,
	asked time.Time) (*trace.Tracer, error) {
	cluster := packet.Cluster
	if seen := p.seen[cluster.Key()]; asked.Sub(seen.at) < networkAge && seen.port == packet.Port {
		return seen.tracer, nil
	}
	begun := time.Now()
	client, err := connectQuietly(p.dir)
	if err != nil {
		return nil, err
	}
	e := &examination{client: client}
	e.Clusters = []arm.ID{cluster}
	if e.Snapshot, err = survey.Of(ctx, client, "", e.Clusters); err != nil {
		return nil, err
	}
	if err := e.read(ctx, examineOptions{withoutRights: true, allMachines: true}); err != nil {
		return nil, err
	}
	k := &inventory.Kubernetes{}
	nodes, err := packet.List(ctx, "nodes")
	if err == nil {
		k.Nodes, err = inventory.DecodeNodes(nodes)
	}
	if err != nil {
		return nil, err
	}
	pods, err := packet.List(ctx, "pods")
	if err == nil {
		k.Pods, err = inventory.DecodePods(pods)
	}
	if err != nil {
		return nil, err
	}
	e.Snapshot.Kubernetes[cluster.Key()] = k
	t := trace.New(e.Snapshot, trace.Options{Protocol: "tcp", Port: packet.Port, Cluster: cluster})
	p.seen[cluster.Key()] = seenNetwork{begun, packet.Port, t}
	return t, nil
}

// firstOf returns the address of a network interface in a subnet that belongs to no node of the
// cluster: a machine that answers for the subnet.
func firstOf(s *inventory.Snapshot, subnet arm.ID, cluster *inventory.Cluster) (found netip.Addr) {
	for _, nic := range s.Interfaces {
		if cluster.NodeResourceGroup != "" && nic.ID.Group().Equal(cluster.NodeGroup()) {
			continue
		}
		for _, c := range nic.Configs {
			if c.Subnet.Equal(subnet) && c.Address.IsValid() &&
				(!found.IsValid() || c.Address.Less(found)) {
				found = c.Address
			}
		}
	}
	return found
}

// connectQuietly connects to the emulator that serves from a folder, and logs nothing.
func connectQuietly(dir string) (*azure.Client, error) {
	info, err := emulator.ReadInfo(dir)
	if err != nil {
		return nil, err
	}
	return connectEmulator(info, azure.Options{})
}
