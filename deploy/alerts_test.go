package deploy

import (
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/rulefmt"
)

// bad is a state that an alert must report, in Prometheus' notation, one sample per minute. after
// is when it must fire first, and near is a similar state in which it must not fire.
type bad struct {
	alert  string
	series string
	after  time.Duration
	near   string
}

var bads = []bad{
	{"RoutekeeperDown", `up 0x30`, 2 * time.Minute, `up 1x10 0x1 1x17`},
	{"RoutekeeperDown", `up{job="prometheus",instance="x"} 1x30`, 2 * time.Minute, `up 1x30`},
	// Two replicas in Kubernetes, one of them serving: they change places, or both are gone.
	{"RoutekeeperDown", "up{namespace=\"n\",service=\"s\",pod=\"a\"} 0x30\n" +
		"up{namespace=\"n\",service=\"s\",pod=\"b\"} 0x30", 2 * time.Minute,
		"up{namespace=\"n\",service=\"s\",pod=\"a\"} 0x10 1x20\n" +
			"up{namespace=\"n\",service=\"s\",pod=\"b\"} 1x10 0x20"},
	// Two keepers outside of Kubernetes: each has to be up.
	{"RoutekeeperDown", "up{instance=\"a\"} 0x30\nup{instance=\"b\"} 1x30", 2 * time.Minute,
		"up{instance=\"a\"} 1x30\nup{instance=\"b\"} 1x30"},
	{"RoutekeeperNotReady", "up 1x30\nroutekeeper_checks_total{cause=\"poll\"} " +
		"0x30\nroutekeeper_checks_total{cause=\"event\"} 0x30", 5 * time.Minute,
		"up 1x30\nroutekeeper_checks_total{cause=\"poll\"} 0x4 " +
			"1x25\nroutekeeper_checks_total{cause=\"event\"} 0x30"},
	// A replica that waits for the lease checks nothing.
	{"RoutekeeperNotReady", "up 1x30\nroutekeeper_checks_total{cause=\"poll\"} " +
		"0x30\nroutekeeper_leader 1x30", 5 * time.Minute,
		"up 1x30\nroutekeeper_checks_total{cause=\"poll\"} 0x30\nroutekeeper_leader 0x30"},
	{"RoutekeeperNoLeader", "routekeeper_leader{pod=\"a\"} 0x30\nroutekeeper_leader{pod=\"b\"} " +
		"0x30", 2 * time.Minute, "routekeeper_leader{pod=\"a\"} 0x10 1x20\n" +
		"routekeeper_leader{pod=\"b\"} 1x10 0x20"},
	// Its first check takes too long, and systemd restarts it: it is never down, nor up, for long.
	{"RoutekeeperNotReady", "up 1 1 1 0 1 1 1 0 1 1 1 0 1 1 1 0 1 1 1 " +
		"0\nroutekeeper_checks_total{cause=\"poll\"} 0 0 0 stale 0 0 0 stale 0 0 0 stale 0 0 0 " +
		"stale", 5 * time.Minute,
		"up 1x9 0 1x20\nroutekeeper_checks_total{cause=\"poll\"} 1x9 stale 0 0 1x18"},
	// Times are seconds since 1970; the tests begin at 1,000,000.
	{"RoutekeeperNoSuccess",
		`routekeeper_cluster_last_success_timestamp_seconds{cluster="shop"} 1000000x30`,
		4 * time.Minute,
		`routekeeper_cluster_last_success_timestamp_seconds{cluster="shop"} 1000000x3 1000240x3 1000480x3`},
	{"RoutekeeperNoSuccess",
		`routekeeper_cluster_last_success_timestamp_seconds{cluster="shop"} 0x30`, 3 * time.Minute,
		`routekeeper_cluster_last_success_timestamp_seconds{cluster="shop"} 0x2 1000180x3 1000420x3`},
	{"RoutekeeperClusterBroken",
		`routekeeper_cluster_state_since_timestamp_seconds{state="broken",cluster="shop"} 1000x10`,
		2 * time.Minute,
		`routekeeper_cluster_state_since_timestamp_seconds{state="at-risk",cluster="shop"} 1000x10`},
	{"RoutekeeperAssociationLost",
		`routekeeper_findings{code="association-lost",severity="error",cluster="shop"} 1x10`,
		time.Minute,
		`routekeeper_findings{code="association-lost",severity="error",cluster="shop"} 1 stale 1 stale 1 stale`},
	// a person silenced it
	{"RoutekeeperAssociationLost",
		`routekeeper_findings{code="association-lost",severity="error",cluster="shop"} 1x10`,
		time.Minute,
		`routekeeper_findings_silenced{code="association-lost",severity="error",cluster="shop"} 1x10`},
	{"RoutekeeperAssociationLost",
		`routekeeper_changes_unmade{verb="associate",cluster="shop"} 2x10`, time.Minute,
		`routekeeper_changes_unmade{verb="create",cluster="shop"} 2x10`},
	{"RoutekeeperRepairSlow", repairs("0x4 1x20", "0x30"), 5 * time.Minute,
		repairs("0x4 1 2 3x20", "0x4 1 2 3x20")},
	{"RoutekeeperAzureUnreachable",
		`routekeeper_findings{code="azure-unreachable",severity="error"} 1x10`, time.Minute,
		`routekeeper_findings{code="azure-unreachable",severity="error"} 1 stale 1 stale 1 stale`},
	{"RoutekeeperLogDropped", `routekeeper_log_lines_dropped_total 0x4 1x20`, 5 * time.Minute,
		`routekeeper_log_lines_dropped_total 7x30`},
	{"RoutekeeperWriteFailing",
		`routekeeper_findings{code="write-refused",severity="error",cluster="shop"} 1x10`,
		2 * time.Minute,
		`routekeeper_findings{code="write-dropped-fields",severity="warning",cluster="shop"} 1x10`},
	{"RoutekeeperConflict",
		`routekeeper_findings{code="conflict",severity="error",cluster="shop"} 1x10`, 0,
		`routekeeper_findings{code="write-undone",severity="error",cluster="shop"} 1x10`},
	{"RoutekeeperDeletesWithheld",
		`routekeeper_findings{code="deletes-withheld",severity="error",cluster="shop"} 1x60`,
		30 * time.Minute,
		`routekeeper_findings{code="deletes-withheld",severity="error",cluster="shop"} 1x29 stale 1x29 stale`},
	{"RoutekeeperFinding",
		`routekeeper_findings{code="prefix-taken",severity="error",cluster="shop"} 1x30`,
		5 * time.Minute,
		"routekeeper_findings{code=\"unmanaged-shadow\",severity=\"warning\",cluster=\"shop\"} " +
			"1x30\nroutekeeper_findings{code=\"write-refused\",severity=\"error\",cluster=\"shop\"} 1x30"},
	{"RoutekeeperConfigRefused", `routekeeper_config_refused 1x10`, 2 * time.Minute,
		`routekeeper_config_refused 1 1 0 1 1 0`},
	{"RoutekeeperTableNearlyFull", "routekeeper_table_routes{table=\"t\"} " +
		"361x30\nroutekeeper_table_routes_limit{table=\"t\"} 400x30", 15 * time.Minute,
		"routekeeper_table_routes{table=\"t\"} " +
			"360x30\nroutekeeper_table_routes_limit{table=\"t\"} " +
			"400x30\nroutekeeper_table_routes{table=\"own\"} 399x30"},
	{"RoutekeeperSurgeDoesNotFit", "routekeeper_subnet_addresses_free{subnet=\"n\"} " +
		"2x60\nroutekeeper_subnet_addresses_surge{subnet=\"n\"} 3x60", 30 * time.Minute,
		"routekeeper_subnet_addresses_free{subnet=\"n\"} " +
			"3x60\nroutekeeper_subnet_addresses_surge{subnet=\"n\"} 3x60\n" +
			"routekeeper_subnet_addresses_free{subnet=\"other\"} 2x60"},
	{"RoutekeeperTokensLow",
		`routekeeper_arm_tokens_remaining{kind="reads",subscription="s"} 39x30`, 15 * time.Minute,
		`routekeeper_arm_tokens_remaining{kind="reads",subscription="s"} 40x30`},
	// One burst of writes, and then none for a long time; and checks every five minutes that find
	// few tokens left.
	{"RoutekeeperTokensLow",
		`routekeeper_arm_tokens_remaining{kind="writes",subscription="s"} 39 39 stale _ _ 39 39 stale _ _ 39 39 stale _ _ 39 39 stale _ _ 39`, 15 * time.Minute,
		`routekeeper_arm_tokens_remaining{kind="writes",subscription="s"} 5 5 5 stale`},
	{"RoutekeeperThrottled", calls("429", 6), 11 * time.Minute, calls("429", 5)},
	{"RoutekeeperAzureFailing", calls("503", 21), 4 * time.Minute, calls("503", 20)},
	{"RoutekeeperAzureFailing", calls("0", 21), 4 * time.Minute, calls("404", 99)},
	{"RoutekeeperHistoryDegraded",
		`routekeeper_findings{code="history-degraded",severity="warning"} 1x30`, 10 * time.Minute,
		`routekeeper_findings{code="history-degraded",severity="warning"} 1x9 stale`},
	// Nearly every second scrape fails for lack of files.
	{"RoutekeeperOutOfFiles", "routekeeper_findings{code=\"too-many-open-files\"," +
		"severity=\"warning\"} _ _ _ 1 stale 1 stale stale 1", 3 * time.Minute,
		`routekeeper_findings{code="history-degraded",severity="warning"} 1x30`},
	{"RoutekeeperAnotherKeeper",
		`routekeeper_findings{code="another-keeper",severity="warning"} 1x30`, 10 * time.Minute,
		`routekeeper_findings{code="another-keeper",severity="warning"} 1x9 stale 1x9 stale`},
	{"RoutekeeperEventsRefused", `routekeeper_events_total{result="unauthorized"} 0+1x60`,
		16 * time.Minute, `routekeeper_events_total{result="unauthorized"} 0x10 5x30 8x30`},
	{"RoutekeeperPaused", `routekeeper_findings{code="paused",severity="info"} 1x600`,
		8 * time.Hour, `routekeeper_findings{code="paused",severity="info"} 1x479 stale`},
	{"RoutekeeperKubenetRetirement", "routekeeper_kubenet_retirement_days " +
		"179x90\nroutekeeper_cluster_last_success_timestamp_seconds{cluster=\"shop\"} 1x90",
		time.Hour,
		"routekeeper_kubenet_retirement_days " +
			"179x90\nroutekeeper_cluster_last_success_timestamp_seconds{cluster=\"shop\"} 1x90\n" +
			"routekeeper_findings{code=\"cluster-not-kubenet\",severity=\"error\",cluster=\"shop\"} 1x90"},
	{"RoutekeeperKubenetRetirement", "routekeeper_kubenet_retirement_days " +
		"179x90\nroutekeeper_cluster_last_success_timestamp_seconds{cluster=\"shop\"} 1x90\n" +
		"routekeeper_cluster_last_success_timestamp_seconds{cluster=\"play\"} " +
		"1x90\nroutekeeper_findings{code=\"cluster-not-kubenet\",severity=\"error\",cluster=\"play\"} 1x90", time.Hour,
		"routekeeper_kubenet_retirement_days " +
			"180x90\nroutekeeper_cluster_last_success_timestamp_seconds{cluster=\"shop\"} 1x90"},
	// An event in the second minute, and changes all the time: six hours without an event end at
	// 6:02, or a sample later.
	{"RoutekeeperEventsStopped",
		"routekeeper_changes_total{verb=\"create\",outcome=\"done\",cluster=\"shop\"} " +
			"0+1x500\nroutekeeper_events_total{result=\"woke\"} 0x1 1x500", 6*time.Hour +
			31*time.Minute,
		"routekeeper_changes_total{verb=\"create\",outcome=\"done\",cluster=\"shop\"} " +
			"0+1x500\nroutekeeper_events_total{result=\"woke\"} 0x500"},
	{"RoutekeeperEventsStopped",
		"routekeeper_changes_total{verb=\"create\",outcome=\"done\",cluster=\"shop\"} " +
			"0+1x500\nroutekeeper_events_total{result=\"unknown\"} 0x1 1x500", 6*time.Hour +
			31*time.Minute,
		"routekeeper_changes_total{verb=\"create\",outcome=\"done\",cluster=\"shop\"} " +
			"0+1x500\nroutekeeper_events_total{result=\"woke\"} 0x1 " +
			"1x500\nroutekeeper_events_total{result=\"own\"} 0+1x500"},
	{"RoutekeeperEventsStopped",
		"routekeeper_changes_total{verb=\"create\",outcome=\"done\",cluster=\"shop\"} " +
			"0+1x500\nroutekeeper_events_total{result=\"own\"} 0x1 1x500", 6*time.Hour +
			31*time.Minute,
		"routekeeper_changes_total{verb=\"create\",outcome=\"failed\",cluster=\"shop\"} " +
			"0+1x500\nroutekeeper_events_total{result=\"woke\"} 0x1 1x500"},
}

// repairs are repairs of node subnets: all of them, and those within half a minute.
func repairs(all, soon string) string {
	return `routekeeper_repair_seconds_count{kind="node-subnet"} ` + all + "\n" +
		`routekeeper_repair_seconds_bucket{kind="node-subnet",le="30"} ` + soon
}

// calls are 100 calls per minute, n of them with another status than 200.
func calls(status string, n int) string {
	return `routekeeper_arm_calls_total{method="GET",status="200"} 0+` + strconv.Itoa(100-n) +
		"x30\nroutekeeper_arm_calls_total{method=\"GET\",status=\"" + status + `"} 0+` +
		strconv.Itoa(n) + "x30"
}

// only keeps the rules of one alert.
func (p *prometheus) only(alert string) {
	p.rules = slices.DeleteFunc(p.rules, func(r rulefmt.Rule) bool { return r.Alert != alert })
	if len(p.rules) == 0 {
		p.t.Fatalf("there is no alert %s", alert)
	}
}

// TestAlerts: every rule fires in its bad state, at its time and not before, and does not fire in
// the similar state.
func TestAlerts(t *testing.T) {
	begin := time.Unix(1_000_000, 0)
	fired := map[string]bool{} // rules, by expression
	for _, c := range bads {
		p := newPrometheus(t)
		p.only(c.alert)
		p.load(begin, time.Minute, c.series)
		first := time.Duration(-1)
		for at := time.Duration(0); at <= c.after+5*time.Minute; at += time.Minute {
			if slices.Contains(names(p.evaluate(begin.Add(at))), c.alert) && first < 0 {
				first = at
			}
		}
		if first != c.after {
			t.Errorf("%s of\n%s\nfires after %s, want %s", c.alert, c.series, first, c.after)
		}
		for _, r := range p.rules {
			if r.Alert == c.alert && len(p.query(r.Expr, begin.Add(c.after))) > 0 {
				fired[r.Expr] = true
			}
		}
		p = newPrometheus(t)
		p.only(c.alert)
		p.load(begin, time.Minute, c.near)
		for at := time.Duration(0); at <= c.after+5*time.Minute; at += time.Minute {
			if slices.Contains(names(p.evaluate(begin.Add(at))), c.alert) {
				t.Errorf("%s fires after %s of\n%s", c.alert, at, c.near)
				break
			}
		}
	}
	for _, r := range newPrometheus(t).rules {
		if !fired[r.Expr] {
			t.Errorf("nothing shows that %s fires: %s", r.Alert, r.Expr)
		}
	}
}
