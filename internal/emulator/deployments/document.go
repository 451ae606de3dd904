package deployments

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/emulator/kernel"
	"routekeeper.dev/routekeeper/internal/iac/armtemplate"
)

// properties returns the fields that Azure shows of a deployment from the start.
func (run *deploymentRun) properties() kernel.Object {
	parameters := kernel.Object{}
	all, err := run.ready.Parameters()
	if err != nil {
		run.kernel.Log.Error("the parameters of a deployment", "id", string(run.id),
			"error", err.Error())
	}
	for _, p := range all {
		parameters[lowerFirst(p.Name)] = typedValue(p.Type, p.Value, p.Secret)
	}
	providers, dependencies := run.describe()
	return kernel.Object{
		"templateHash": armtemplate.Hash(
			run.template), "parameters": parameters, "mode": "Incremental",
		"provisioningState": Accepted, "timestamp": stamp(time.Now()),
		"duration":      "PT0.0009437S",
		"correlationId": run.State.Correlation, "providers": providers,
		"dependencies": dependencies,
	}
}

// describe lists the resource types of a template, and the dependencies.
func (run *deploymentRun) describe() (providers, dependencies []any) {
	providers, dependencies = []any{}, []any{}
	byNamespace, byType := map[string]kernel.Object{}, map[string]kernel.Object{}
	for _, p := range run.planned() {
		namespace, rest, _ := strings.Cut(p.Type, "/")
		provider := byNamespace[namespace]
		if provider == nil {
			provider = kernel.Object{"namespace": namespace, "resourceTypes": []any{}}
			byNamespace[namespace] = provider
			providers = append(providers, provider)
		}
		kind := byType[p.Type]
		if kind == nil {
			kind = kernel.Object{"resourceType": rest, "locations": []any{}}
			byType[p.Type] = kind
			provider["resourceTypes"] = append(provider["resourceTypes"].([]any), kind)
		}
		var location any
		if l := kernel.NormalLocation(p.Body.Text("location")); l != "" &&
			!strings.Contains(l, "[") {
			location = l
		}
		if all := kind["locations"].([]any); !slices.Contains(all, location) {
			kind["locations"] = append(all, location)
		}
	}
	for _, r := range run.ready.Resources() {
		needs := []any{}
		for _, need := range run.ready.Needs(r) {
			needs = append(needs, run.named(need))
		}
		if len(needs) > 0 {
			doc := run.named(r)
			doc["dependsOn"] = needs
			dependencies = append(dependencies, doc)
		}
	}
	return providers, dependencies
}

func (run *deploymentRun) named(r *armtemplate.Resource) kernel.Object {
	return kernel.Object{
		"id":           string(run.kernel.Spelled(arm.ID(r.ID))),
		"resourceType": r.Type,
		"resourceName": r.Name,
	}
}

// typedValue returns a parameter or an output as Azure shows it, without secrets.
func typedValue(kind string, value any, secret bool) kernel.Object {
	doc := kernel.Object{"type": strings.ToUpper(kind[:min(1, len(kind))]) +
		kind[min(1, len(kind)):]}
	if !secret {
		doc["value"] = armtemplate.Plain(value)
	}
	return doc
}

func lowerFirst(s string) string { return strings.ToLower(s[:min(1, len(s))]) + s[min(1, len(s)):] }

func stamp(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.0000000Z") }

// isoDuration writes a duration as .NET does: PT4M42.1939014S.
func isoDuration(d time.Duration) string {
	d = max(d, 100*time.Nanosecond).Round(100 * time.Nanosecond)
	text, hours, minutes := "PT", d/time.Hour, d%time.Hour/time.Minute
	if hours > 0 {
		text += fmt.Sprintf("%dH", hours)
	}
	if minutes > 0 {
		text += fmt.Sprintf("%dM", minutes)
	}
	seconds := strconv.FormatFloat((d % time.Minute).Seconds(), 'f', -1, 64)
	return text + seconds + "S"
}

// operationNumber returns the ID of an operation of a deployment: later operations have lower
// numbers.
func operationNumber() string {
	return fmt.Sprintf("0%d", 9_223_372_036_854_775_807-(time.Now().Unix()+
		62_135_596_800)*10_000_000-int64(time.Now().Nanosecond()/100))
}

func operationID() string {
	return strings.ToUpper(strings.ReplaceAll(uuid.NewString(), "-", "")[:16])
}

// operationDocuments lists the operations, the last first, as Azure does.
func (run *deploymentRun) operationDocuments() []kernel.Object {
	docs := []kernel.Object{}
	if run == nil {
		return docs
	}
	add := func(operation string, properties kernel.Object) {
		docs = append(docs, kernel.Object{"id": string(run.id) + "/operations/" + operation,
			"operationId": operation, "properties": properties})
	}
	for _, s := range slices.Backward(run.State.Steps) {
		ended := s.Ended
		if ended.IsZero() {
			ended = time.Now()
		}
		p := kernel.Object{"provisioningOperation": "Create", "provisioningState": s.Status,
			"timestamp": stamp(ended), "duration": isoDuration(ended.Sub(s.Started)),
			"trackingId": s.Tracking, "targetResource": kernel.Object{"id": string(s.ID),
				"resourceType": s.Type, "resourceName": s.Name},
		}
		if s.Code != 0 {
			p["statusCode"] = kernel.StatusName(s.Code)
		}
		if s.Failure != nil {
			p["statusMessage"] = kernel.Object{"error": s.Failure.Document()}
		}
		add(s.Operation, p)
	}
	if run.State.OutputID != "" {
		add(run.State.OutputID, kernel.Object{"provisioningOperation": "EvaluateDeploymentOutput",
			"provisioningState": "Succeeded", "timestamp": stamp(run.State.Ended),
			"duration": isoDuration(0), "trackingId": uuid.NewString(), "statusCode": "OK"})
	}
	return docs
}
