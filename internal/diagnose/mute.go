package diagnose

import (
	"slices"

	"routekeeper.dev/routekeeper/internal/finding"
)

// knockOn says which findings of a cluster follow from another one of the same cluster: they go away with it, and beside it they
// only hide what is to be done.
var knockOn = map[finding.Code][]finding.Code{
	finding.TableMissing: {finding.AssociationLost, finding.TargetDrift, finding.SourceEmpty},
	finding.AzureSilent:  {finding.ReadFailed, finding.RightsUnread},
}

// Mute leaves out the findings that follow from others.
func Mute(findings []finding.Finding) []finding.Finding {
	muted := func(f finding.Finding) bool {
		return slices.ContainsFunc(findings, func(cause finding.Finding) bool {
			return (cause.Cluster == f.Cluster || cause.Cluster == "") && slices.Contains(knockOn[cause.Code], f.Code)
		})
	}
	return slices.DeleteFunc(slices.Clone(findings), muted)
}
