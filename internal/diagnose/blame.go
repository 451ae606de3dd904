package diagnose

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/finding"
	"routekeeper.dev/routekeeper/internal/inventory"
)

// changed lists the findings that another writer may have caused by changing the resource.
var changed = []finding.Code{
	finding.AssociationLost, finding.AssociationOther, finding.SourceEmpty, finding.TargetDrift,
	finding.PrefixTaken,
	finding.UnmanagedShadow, finding.Unsettled, finding.PoolWithoutTable,
	finding.NetworkManagerTable, finding.PolicyTable, finding.WrongHop,
	finding.HopNotNode, finding.ClaimedTwice, finding.RouteInPodCIDR, finding.RouteShadows,
	finding.NodeWithoutRoute, finding.RouteUnnoticed,
	finding.GatewayDefaultRoute, finding.GatewaySharesTable, finding.GatewayNoTable,
	finding.EgressRouteMissing, finding.EgressRouteLost, finding.EgressBypassed,
	finding.EgressDropped, finding.EgressDiffers,
	finding.NextHopUnreachable, finding.FilterBlocksPods, finding.FilterBlocksNodes,
	finding.FilterBlocksAPI, finding.FilterBlocksProbes, finding.FilterBlocksEgress,
}

// Changed returns the resources for which the last writer matters, each once, sorted.
func Changed(findings []finding.Finding) []arm.ID {
	var ids []arm.ID
	for _, f := range findings {
		if f.Resource != "" && slices.Contains(changed, f.Code) {
			ids = append(ids, arm.ID(f.Resource))
		}
	}
	return inventory.SortIDs(ids)
}

// Blame adds the last writer of the resource to each finding, if it was read.
func Blame(findings []finding.Finding, s *inventory.Snapshot) []finding.Finding {
	out := slices.Clone(findings)
	for i, f := range out {
		if w, asked := s.Writers[arm.ID(f.Resource).Key()]; asked &&
			slices.Contains(changed, f.Code) {
			out[i] = f.With(w.Line)
		}
	}
	return out
}

// unseen reports resources that could not be read and that no other finding names. Without it, a
// diagnosis that read nothing would look healthy.
func unseen(s *inventory.Snapshot, said []finding.Finding) []finding.Finding {
	var found []finding.Finding
	for _, key := range slices.Sorted(maps.Keys(s.Unread)) {
		u := s.Unread[key]
		spoken := slices.ContainsFunc(said, func(f finding.Finding) bool {
			return u.ID.Equal(arm.ID(f.Resource)) || f.Code == finding.AzureUnreachable
		})
		if u.Absent || spoken {
			continue
		}
		f := finding.New(finding.ReadFailed, "", string(u.ID), "%s", notRead(u))
		if isLog(u.ID) || !isList(u.ID) && !u.Undecoded() {
			f.Severity = finding.Info
		}
		found = append(found, f)
	}
	return found
}

func notRead(u inventory.Unread) string {
	if isLog(u.ID) {
		return "what subnets had and lost may be missing from this diagnosis, because the " +
			"activity log could not be read: " + u.Reason()
	}
	if isList(u.ID) {
		return fmt.Sprintf("resources of this type may be missing from this diagnosis, because "+
			"their list could not be read: %s: %s", u.ID, u.Reason())
	}
	return fmt.Sprintf("%s %s could not be read, so checks that need it are skipped: %s",
		u.ID.Type(), u.ID.Short(), u.Reason())
}

// isLog reports whether an ID is that of a subscription's activity log.
func isLog(id arm.ID) bool {
	return strings.HasSuffix(id.Key(), strings.ToLower("/providers/"+arm.TypeActivityLog))
}

// isList reports whether an ID stands for a list: a scope and the type that was listed in it.
func isList(id arm.ID) bool {
	parts := strings.Split(strings.Trim(string(id), "/"), "/")
	return len(parts) >= 3 && strings.EqualFold(parts[len(parts)-3], "providers") ||
		len(parts)%2 == 1
}
