package finding

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// namedClusters is the number of clusters that the evidence of an outage names.
const namedClusters = 10

// IsOutage reports whether the finding says that Azure answers nothing, for any cluster.
func (f Finding) IsOutage() bool { return f.Code == AzureUnreachable && f.Cluster == "" }

// Outage folds all azure-unreachable findings into one without a cluster: an outage of Azure is one
// finding, for one cluster or a thousand. since is the time of the first unanswered call. networks
// has the names of documents without a cluster. Other findings stay as they are.
func Outage(findings []Finding, since time.Time, networks map[string]bool) []Finding {
	var others []Finding
	var clusters, reasons []string
	for _, f := range findings {
		if f.Code != AzureUnreachable {
			others = append(others, f)
			continue
		}
		if f.Cluster != "" {
			clusters = append(clusters, f.Cluster)
		}
		reasons = append(reasons, f.Evidence...)
	}
	if len(others) == len(findings) {
		return findings
	}
	slices.Sort(clusters)
	clusters = slices.Compact(clusters)
	without := 0
	for _, name := range clusters {
		if networks[name] {
			without++
		}
	}
	concerned := Managed(len(clusters), without) + " are"
	if len(clusters) == 1 {
		concerned = clusters[0] + " is"
	}
	names := clusters
	if more := len(clusters) - namedClusters; more > 0 {
		names = append(slices.Clone(clusters[:namedClusters]), fmt.Sprintf("and %d more", more))
	}
	slices.Sort(reasons)
	reasons = slices.Compact(reasons)
	one := New(AzureUnreachable, "", "",
		"Azure has not answered since %s: %s not checked, and nothing is changed",
		since.Format(time.TimeOnly), concerned).
		With("since "+since.Format(time.RFC3339), "not checked: "+strings.Join(names, ", ")).
		With(reasons[:min(len(reasons), 3)]...).
		WithAdvice("check the network path to Azure Resource Manager, " +
			"and https://azure.status.microsoft")
	return Sort(append(others, one))
}
