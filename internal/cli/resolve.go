package cli

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/inventory"
)

// resolveFlag adds --resolve, which only --egress needs.
func resolveFlag(cmd *cobra.Command, o *examineOptions) {
	cmd.Flags().BoolVar(&o.resolve, "resolve", false, "with --egress: look up the API server's "+
		"address in the DNS of this machine, for rules that name addresses")
}

// lookUp is how long the DNS may take for one name.
const lookUp = 5 * time.Second

// resolve looks up the names of the API servers that nodes call by public addresses. DNS of another
// network than the nodes' may have other answers, so this needs a flag.
func resolve(ctx context.Context, s *inventory.Snapshot, clusters []arm.ID,
	lookup func(ctx context.Context, network, host string) ([]netip.Addr, error)) {
	read := s.WithEgress()
	read.Addresses, read.Unresolved = map[string][]netip.Addr{}, map[string]string{}
	for _, id := range clusters {
		cluster := s.Cluster(id)
		if cluster == nil || cluster.PrivateZone != "" || len(cluster.Hosts) == 0 {
			continue
		}
		host := cluster.Hosts[0]
		limited, cancel := context.WithTimeout(ctx, lookUp)
		found, err := lookup(limited, "ip4", host)
		cancel()
		var failed *net.DNSError
		switch {
		case errors.As(err, &failed) && failed.IsNotFound:
			read.Unresolved[host] = "the DNS of this machine does not know the name"
		case err != nil:
			read.Unresolved[host] = "the DNS of this machine did not answer"
		}
		for _, a := range found {
			read.Addresses[host] = append(read.Addresses[host], a.Unmap())
		}
		slices.SortFunc(read.Addresses[host], netip.Addr.Compare)
	}
}
