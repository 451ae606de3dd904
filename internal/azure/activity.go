package azure

import (
	"context"
	"encoding/json"
	"net/url"
	"slices"
	"strings"
	"time"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/inventory"
)

// logReach is how far back the activity log goes: 90 days.
const logReach = 89 * 24 * time.Hour

// logPages limits how many pages of one subscription's log are read.
const logPages = 20

// readWritten finds tables that the cluster's identity wrote, newest first, in the activity logs of
// the cluster's subscription and of its node subnets'. It reads each log until it has found one
// more table, and continues from there the next time.
func (c *Client) readWritten(ctx context.Context, s *inventory.Snapshot,
	cluster *inventory.Cluster) error {
	known := s.Learn(cluster.ID)
	links := known.LogNext
	if !known.LogRead {
		links = logStarts(c, cluster)
	}
	known.LogRead, known.LogNext = true, nil
	identities := map[string]bool{}
	for _, p := range cluster.Principals {
		identities[p] = true
	}
	for _, next := range links {
		found := false
		for pages := 0; next != "" && !found; pages++ {
			if pages == logPages {
				known.LogCut, next = true, ""
				break
			}
			page, err := c.get(ctx, next)
			if err == nil {
				var values []json.RawMessage
				var fault *Error
				if values, next, fault = readPage(page, next); fault == nil {
					found = addWritten(known, values, identities)
					continue
				}
				err = fault
			}
			if err := noted(s, arm.ID("/subscriptions/"+idOf(next).Subscription()),
				err); err != nil {
				return err
			}
			next = ""
		}
		if next != "" {
			known.LogNext = append(known.LogNext, next)
		}
	}
	return nil
}

// logStarts returns the first links into the logs.
func logStarts(c *Client, cluster *inventory.Cluster) []string {
	subscriptions := []arm.ID{arm.ID("/subscriptions/" + cluster.ID.Subscription())}
	for _, subnet := range cluster.ExistingSubnets() {
		subscriptions = append(subscriptions, arm.ID("/subscriptions/"+subnet.Subscription()))
	}
	now := time.Now().UTC()
	filter := "eventTimestamp ge '" + now.Add(-logReach).Format(time.RFC3339) +
		"' and eventTimestamp le '" + now.Format(time.RFC3339Nano) +
		"' and resourceProvider eq 'Microsoft.Network'"
	var links []string
	for _, subscription := range inventory.SortIDs(subscriptions) {
		links = append(links,
			c.address(subscription, "/providers/Microsoft.Insights/eventtypes/management/values",
				activityVersion)+"&$filter="+url.QueryEscape(filter))
	}
	return links
}

// addWritten adds the tables that a page of the log shows, and reports whether one is new.
func addWritten(known *inventory.Known, values []json.RawMessage, identities map[string]bool) bool {
	before := len(known.Written)
	for _, raw := range values {
		if table, ok := tableWrite(raw, identities); ok &&
			!slices.ContainsFunc(known.Written, table.Equal) {
			known.Written = append(known.Written, table)
		}
	}
	return len(known.Written) > before
}

// logRecord has the fields of an activity log record that are used.
type logRecord struct {
	Caller         string            `json:"caller"`
	Claims         map[string]string `json:"claims"`
	OperationName  logValue          `json:"operationName"`
	Status         logValue          `json:"status"`
	ResourceID     arm.ID            `json:"resourceId"`
	EventTimestamp string            `json:"eventTimestamp"`
	CorrelationID  string            `json:"correlationId"`
}

// write returns the write that a record is about, at its time; false if the record has no time.
func (r logRecord) write() (LastWrite, bool) {
	at, err := time.Parse(time.RFC3339Nano, r.EventTimestamp)
	return LastWrite{
		Resource: r.ResourceID, Operation: r.OperationName.Value, At: at, Caller: r.Caller,
		Name: r.Claims["name"], Application: r.Claims["appid"],
		Identity: arm.ID(r.Claims["xms_mirid"]), Correlation: r.CorrelationID,
		object: r.Claims["http://schemas.microsoft.com/identity/claims/objectidentifier"],
	}, err == nil
}

// took reports whether a record says that Azure accepted or completed its operation.
func (r logRecord) took() bool {
	return strings.EqualFold(r.Status.Value, "Succeeded") ||
		strings.EqualFold(r.Status.Value, "Accepted")
}

// isWrite reports whether the operation is a PUT or PATCH.
func (r logRecord) isWrite() bool {
	return strings.HasSuffix(strings.ToLower(r.OperationName.Value), "/write")
}

type logValue struct {
	Value string `json:"value"`
}

// tableWrite returns the table that an activity log record shows as written by one of the
// identities.
func tableWrite(raw []byte, identities map[string]bool) (table arm.ID, ok bool) {
	var r logRecord
	if json.Unmarshal(raw, &r) != nil {
		return "", false // an unknown kind of record
	}
	operation := strings.ToLower(r.OperationName.Value)
	if operation != "microsoft.network/routetables/write" &&
		operation != "microsoft.network/routetables/routes/write" {
		return "", false
	}
	if !strings.EqualFold(r.Status.Value, "Succeeded") {
		return "", false // only begun, or refused
	}
	by := false
	for _, name := range []string{r.Caller, r.Claims["appid"], r.Claims["xms_mirid"]} {
		by = by || name != "" && identities[strings.ToLower(name)]
	}
	id, err := arm.ParseID(string(r.ResourceID))
	if !by || err != nil {
		return "", false
	}
	if !id.Is(arm.TypeRouteTable) {
		id = id.Parent() // of one route
	}
	return id, id.Is(arm.TypeRouteTable)
}
