package recordings

import (
	"encoding/json"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Unpredictable values are compared by form only.
var (
	guid = regexp.MustCompile(
		`[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}`,
	)
	subscription = regexp.MustCompile(
		`(?i)(/subscriptions/)[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`,
	)
	// hash is what Azure puts behind the names of disks.
	hash = regexp.MustCompile(`_[0-9a-f]{32}\b`)
	date = regexp.MustCompile(
		`\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d:?\d\d)?|\d{1,2}/\d{1,2}/\d{4}( \d{1,2}:\d\d:\d\d( [AP]M)?)?`,
	)
	address4  = regexp.MustCompile(`\b\d{1,3}(?:\.\d{1,3}){3}\b`)
	nodeNames = regexp.MustCompile(`(aks-[a-z0-9]+-)(\d{8})`)
	// instance is a machine of a scale set: the ones that overprovisioning leaves have any numbers.
	instance     = regexp.MustCompile(`(?i)(/virtualMachineScaleSets/[^/]+/virtualMachines/)(\d+)`)
	numbered     = regexp.MustCompile(`_\d+(_OsDisk_|_disk|$)`)
	hostName     = regexp.MustCompile(`0{3,5}[0-9A-Z]{1,3}$`)
	instanceName = regexp.MustCompile(`vmss[0-9a-z]{6}\b`)
	moving       = []string{
		"updating",
		"creating",
		"deleting",
		"upgrading",
		"scaling",
		"starting",
		"stopping",
		"running",
		"accepted",
		"inprogress",
		"migrating",
		"canceling",
		"provisioning",
		"upgradingnodeimageversion",
	}
	anything = regexp.MustCompile(
		`(?:^|\.)(fqdn|fqdnSubdomain|azurePortalFQDN|privateFQDN|portalFqdn|resourceGuid|clientId|principalId|objectId|tenantId|` +
			`vmId|instanceId|macAddress|resourceUID|uniqueId|correlationId|operationId|eventDataId|issuerURL|issuerUrl|createdBy|updatedBy|createdByType|lastModifiedByType|` +
			`nodeImageVersion|createdTime|changedTime|createdOn|updatedOn|timeCreated|timeUpdated|createdAt|lastModifiedAt|lastModifiedBy|secret|keyData|` +
			`value\[\]\.kubeconfig|kubeconfigs\[\]\.value|adminPassword|etag|sshrsa|internalDomainNameSuffix|nextLink|skiptoken|settings|creationTime|` +
			`requestTime|managedBy|managedByExtended\[\]|latestModelApplied|exactVersion|time|eventTimestamp|submissionTimestamp|httpRequest|claims|caller|linkIdentifier)$`,
	)
	versions = regexp.MustCompile(
		`(?:^|\.)(kubernetesVersion|currentKubernetesVersion|orchestratorVersion|currentOrchestratorVersion)$`,
	)
	anyAddress = regexp.MustCompile(
		`(?:^|\.)(ipAddress|privateIPAddress|privateIPAddresses\[\]|effectiveOutboundIPs.*|authorizedIPRanges\[\])$`,
	)
	anyVersion = regexp.MustCompile(
		`(?i)"(?:current)?(?:kubernetes|orchestrator)Version":\s*"(\d+\.\d+\.\d+)"`,
	)
	ids         = regexp.MustCompile(`(?i)/subscriptions/[^\s"',?]+`)
	groupInPath = regexp.MustCompile(`(?i)/resourcegroups/([^/]+)`)
)

// shape is a text without unpredictable values.
func shape(s string, addresses bool) string {
	s = subscription.ReplaceAllString(s, "$1*")
	s = hash.ReplaceAllString(s, "<h>")
	s = date.ReplaceAllString(guid.ReplaceAllString(s, "<g>"), "<d>")
	if addresses {
		s = address4.ReplaceAllString(s, "<ip>")
	}
	s = numbered.ReplaceAllString(instance.ReplaceAllString(s, "$1<n>"), "_<n>$1")
	s = hostName.ReplaceAllString(s, "<n>")
	return strings.ToLower(
		instanceName.ReplaceAllString(nodeNames.ReplaceAllString(s, "$1<n>"), "vmss<x>"),
	)
}

var (
	quoted  = regexp.MustCompile(`'[^']*'|"[^"]*"`)
	longID  = regexp.MustCompile(`/subscriptions/[^\s'"]*`)
	number  = regexp.MustCompile(`\b\d+\b`)
	tracing = regexp.MustCompile(`(?i)Request ?id: ?\*|Correlation ?id: ?\*|trackingId.*$`)
)

// sentence is an error's message without names.
func sentence(s string, names []string) string {
	s = longID.ReplaceAllString(guid.ReplaceAllString(s, "*"), "*")
	s = quoted.ReplaceAllString(s, "'*'")
	s = number.ReplaceAllString(address4.ReplaceAllString(date.ReplaceAllString(s, "*"), "*"), "*")
	names = slices.Clone(names)
	slices.SortFunc(names, func(a, b string) int { return len(b) - len(a) })
	for _, n := range names {
		if len(n) > 2 {
			s = regexp.MustCompile(`(?i)(^|[^\w-])`+regexp.QuoteMeta(n)+`($|[^\w-])`).
				ReplaceAllString(s, "$1*$2")
		}
	}
	return strings.ToLower(strings.Join(strings.Fields(tracing.ReplaceAllString(s, "")), " "))
}

// mapVersions maps the Kubernetes versions of a recording, which go out of support, to current
// ones, in order.
func (r *replay) mapVersions() {
	var seen []string
	for _, c := range r.of.calls {
		if !strings.Contains(strings.ToLower(c.request.path), "containerservice/managedclusters") {
			continue
		}
		for _, m := range append(anyVersion.FindAllStringSubmatch(c.Body, -1),
			anyVersion.FindAllStringSubmatch(c.Answer, -1)...) {
			if !slices.Contains(seen, m[1]) {
				seen = append(seen, m[1])
			}
		}
	}
	if len(seen) == 0 {
		return
	}
	var have []string
	offered := object(
		decoded(
			r.azure.do(
				"GET",
				"/subscriptions/"+r.subscription+
					"/providers/Microsoft.ContainerService/locations/westus/kubernetesVersions?api-version=2024-01-01",
				"",
				nil,
			).body,
		),
	)
	minors, _ := offered["values"].([]any)
	for _, minor := range minors {
		for v := range object(object(minor)["patchVersions"]) {
			have = append(have, v)
		}
	}
	first := seen[0]
	slices.SortFunc(seen, compareVersions)
	slices.SortFunc(have, compareVersions)
	theirs, ours := minorsOf(seen), minorsOf(have)
	at := slices.Index(theirs, minorOf(first))
	base := len(ours) - 2
	if at == len(theirs)-1 {
		base = len(ours) - 1
	}
	for _, v := range seen {
		minor := ours[min(max(base+slices.Index(theirs, minorOf(v))-at, 0), len(ours)-1)]
		of := withMinor(have, minor)
		same := withMinor(seen, minorOf(v))
		to := of[len(of)-1]
		if len(same) <= len(of) {
			to = of[len(of)-len(same)+slices.Index(same, v)]
		}
		if v != to {
			r.names[`"`+v+`"`] = `"` + to + `"`
		}
	}
}

func minorOf(v string) string { return v[:strings.LastIndexByte(v, '.')] }

func minorsOf(all []string) []string {
	var out []string
	for _, v := range all {
		if !slices.Contains(out, minorOf(v)) {
			out = append(out, minorOf(v))
		}
	}
	return out
}

func withMinor(all []string, minor string) []string {
	return slices.DeleteFunc(slices.Clone(all), func(v string) bool { return minorOf(v) != minor })
}

func compareVersions(a, b string) int {
	x, y := strings.Split(a, "."), strings.Split(b, ".")
	for i := range min(len(x), len(y)) {
		m, _ := strconv.Atoi(x[i])
		n, _ := strconv.Atoi(y[i])
		if m != n {
			return m - n
		}
	}
	return len(x) - len(y)
}

func encoded(v any) string {
	if s, isText := v.(string); isText {
		return s
	}
	raw, err := json.Marshal(v)
	if err != nil {
		panic(err) // it came from JSON
	}
	return string(raw)
}
