package diagnose

import (
	"slices"
	"strings"

	"routekeeper.dev/routekeeper/internal/finding"
)

// knockOn says which findings of a cluster follow from another one of the same cluster: they go
// away with it, and beside it they only hide what is to be done.
var knockOn = map[finding.Code][]finding.Code{
	finding.TableMissing: {
		finding.AssociationLost, finding.PoolWithoutTable, finding.TargetDrift, finding.SourceEmpty,
		finding.NetworkUnavailable, finding.EgressRouteMissing,
	},
	finding.TableFull:        {finding.NodeWithoutRoute, finding.RouteUnnoticed, finding.RouteHalf},
	finding.NodeWithoutRoute: {finding.SourceEmpty},
	finding.RouteUnnoticed:   {finding.SourceEmpty},
	finding.SourceEmpty:      {finding.TargetDrift},
	// Without the routes, pods' addresses are not among those of the service tag VirtualNetwork.
	finding.AssociationLost: {finding.FilterBlocksPods},

	finding.NetworkManagerTable: {finding.SourceEmpty},
	finding.AzureUnreachable:    {finding.ReadFailed, finding.RightsUnread},
}

// knockOnThere says the same of findings of one and the same resource; and the same part of it,
// where the cause speaks of a part.
var knockOnThere = map[finding.Code][]finding.Code{
	finding.PoolWithoutTable:     {finding.AssociationLost},
	finding.NetworkManagerTable:  {finding.AssociationOther},
	finding.PolicyTable:          {finding.AssociationOther},
	finding.TableElsewhere:       {finding.AssociationOther},
	finding.WrongHop:             {finding.SourceHop},
	finding.AssociationLost:      {finding.EgressRouteMissing, finding.GatewayNoTable},
	finding.AssociationOther:     {finding.EgressRouteMissing},
	finding.GatewayRoutesMissing: {finding.RoutesUnkept},
}

// Mute leaves out the findings that follow from others.
func Mute(findings []finding.Finding) []finding.Finding {
	muted := func(f finding.Finding) bool {
		return slices.ContainsFunc(findings, func(cause finding.Finding) bool {
			return (cause.Cluster == f.Cluster || cause.Cluster == "") &&
				(slices.Contains(knockOn[cause.Code], f.Code) ||
					strings.EqualFold(cause.Resource, f.Resource) && (cause.Subject == "" ||
						strings.EqualFold(cause.Subject, f.Subject)) &&
						slices.Contains(knockOnThere[cause.Code], f.Code))
		})
	}
	return slices.DeleteFunc(slices.Clone(findings), muted)
}
