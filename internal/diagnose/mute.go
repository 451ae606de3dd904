package diagnose

import (
	"slices"
	"strings"

	"routekeeper.dev/routekeeper/internal/finding"
)

// consequences lists, for a finding of a cluster, the findings of the same cluster that follow from
// it. They disappear together with their cause. Until then they only distract from it.
var consequences = map[finding.Code][]finding.Code{
	finding.TableMissing: {
		finding.AssociationLost, finding.PoolWithoutTable, finding.TargetDrift, finding.SourceEmpty,
		finding.NetworkUnavailable, finding.EgressRouteMissing,
	},
	finding.TableFull:        {finding.NodeWithoutRoute, finding.RouteUnnoticed, finding.RouteHalf},
	finding.NodeWithoutRoute: {finding.SourceEmpty},
	finding.RouteUnnoticed:   {finding.SourceEmpty},
	finding.SourceEmpty:      {finding.TargetDrift},
	// Without the pod routes, the service tag VirtualNetwork does not include the pods' addresses.
	finding.AssociationLost: {finding.FilterBlocksPods},

	finding.NetworkManagerTable: {finding.SourceEmpty},
	finding.AzureUnreachable:    {finding.ReadFailed, finding.RightsUnread},
}

// resourceConsequences works like consequences for findings of the same resource and, if the cause
// has a subject, of the same subject.
var resourceConsequences = map[finding.Code][]finding.Code{
	finding.PoolWithoutTable:     {finding.AssociationLost},
	finding.NetworkManagerTable:  {finding.AssociationOther},
	finding.PolicyTable:          {finding.AssociationOther},
	finding.TableElsewhere:       {finding.AssociationOther},
	finding.WrongHop:             {finding.SourceHop},
	finding.AssociationLost:      {finding.EgressRouteMissing, finding.GatewayNoTable},
	finding.AssociationOther:     {finding.EgressRouteMissing},
	finding.EgressBypassed:       {finding.EgressDiffers},
	finding.GatewayRoutesMissing: {finding.RoutesUnkept},
}

// Mute removes the findings that follow from others.
func Mute(findings []finding.Finding) []finding.Finding {
	muted := func(f finding.Finding) bool {
		return slices.ContainsFunc(findings, func(cause finding.Finding) bool {
			return (cause.Cluster == f.Cluster || cause.Cluster == "") &&
				(slices.Contains(consequences[cause.Code], f.Code) ||
					strings.EqualFold(cause.Resource, f.Resource) && (cause.Subject == "" ||
						strings.EqualFold(cause.Subject, f.Subject)) &&
						slices.Contains(resourceConsequences[cause.Code], f.Code))
		})
	}
	return slices.DeleteFunc(slices.Clone(findings), muted)
}
