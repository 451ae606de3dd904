package diagnose

import (
	"slices"
	"strings"

	"routekeeper.dev/routekeeper/internal/finding"
)

// knockOn says which findings of a cluster follow from another one of the same cluster: they go away with it, and beside it they
// only hide what is to be done.
var knockOn = map[finding.Code][]finding.Code{
	finding.TableMissing: {finding.AssociationLost, finding.TargetDrift, finding.SourceEmpty, finding.EgressRouteMissing},
	finding.AzureSilent:  {finding.ReadFailed, finding.RightsUnread},
}

// knockOnThere says the same of findings of one and the same resource.
var knockOnThere = map[finding.Code][]finding.Code{
	finding.AssociationLost:      {finding.EgressRouteMissing, finding.GatewayNoTable},
	finding.AssociationOther:     {finding.EgressRouteMissing},
	finding.GatewayRoutesMissing: {finding.RoutesUnkept},
}

// Mute leaves out the findings that follow from others.
func Mute(findings []finding.Finding) []finding.Finding {
	muted := func(f finding.Finding) bool {
		return slices.ContainsFunc(findings, func(cause finding.Finding) bool {
			return (cause.Cluster == f.Cluster || cause.Cluster == "") && (slices.Contains(knockOn[cause.Code], f.Code) ||
				strings.EqualFold(cause.Resource, f.Resource) && slices.Contains(knockOnThere[cause.Code], f.Code))
		})
	}
	return slices.DeleteFunc(slices.Clone(findings), muted)
}
