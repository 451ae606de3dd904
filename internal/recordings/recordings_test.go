package recordings

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"sigs.k8s.io/yaml"
)

// agreed are the minimum shares in percent: what the emulator reached, minus the possible
// difference of other recordings of the same kind.
var agreed = map[string]float64{
	"status": 99.5, "code": 99, "headers": 99.3, "end": 99.5, "core": 98, "body": 96,
}

// evidence is a row of the emulator's evidence, as far as it is compared here.
type evidence struct {
	Name, Clients string
	Types         []string
	Recorded      map[string]float64
}

// evidences reads the rows.
var evidences = sync.OnceValue(func() (all []evidence) {
	raw, err := os.ReadFile("../emulator/testdata/evidence.yaml")
	if err == nil {
		err = yaml.Unmarshal(raw, &all)
	}
	if err != nil {
		panic(err)
	}
	return all
})

// wholeBodies are the minimum shares of answers that agree in every field, in percent: those of the
// evidence in docs/emulator.md.
func wholeBodies() map[string]float64 {
	out := map[string]float64{}
	for _, e := range evidences() {
		maps.Copy(out, e.Recorded)
	}
	return out
}

// TestRecordings replays what ROUTEKEEPER_RECORDINGS names: a folder or a .tgz of conversations,
// one JSON call per line. ROUTEKEEPER_DISAGREEMENTS=N also prints the N most frequent
// disagreements.
func TestRecordings(t *testing.T) {
	from := os.Getenv("ROUTEKEEPER_RECORDINGS")
	if from == "" {
		t.Log(
			"ROUTEKEEPER_RECORDINGS is not set: NOTHING WAS COMPARED with recorded answers of " +
				"the real Azure",
		)
		fmt.Fprintln(
			os.Stderr,
			"internal/recordings: ROUTEKEEPER_RECORDINGS is not set: NOTHING WAS COMPARED with "+
				"recorded answers of the real Azure",
		)
		return
	}
	var results []*result
	all := load(t, from)
	for _, one := range all {
		synctest.Test(t, func(t *testing.T) {
			results = append(results, newReplay(one, newAzure(t)).run()...)
		})
	}
	if len(results) == 0 {
		t.Fatalf("%s holds no recordings", from)
	}
	count := map[string]int{}
	for _, r := range results {
		count[r.verdict]++
	}
	fmt.Printf("%d recordings: %v\n%s\n", len(all), count, table(results))
	if *update {
		if err := os.WriteFile(pageFile, []byte(page(len(all), results)), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if n := 0; os.Getenv("ROUTEKEEPER_DISAGREEMENTS") != "" {
		if _, err := fmt.Sscan(os.Getenv("ROUTEKEEPER_DISAGREEMENTS"), &n); err != nil {
			t.Errorf("ROUTEKEEPER_DISAGREEMENTS: %v", err)
		}
		fmt.Println(disagreements(results, n))
	}
	total := figuresOf(results)
	for what, least := range agreed {
		if total.share[what] < least {
			t.Errorf(
				"%s agrees in %.1f %%, which is less than %.1f",
				what,
				total.share[what],
				least,
			)
		}
	}
	for row, least := range wholeBodies() {
		of := figuresOf(
			slices.DeleteFunc(slices.Clone(results), func(r *result) bool { return r.row != row }),
		)
		if of.of["body"] > 0 && of.share["body"] < least {
			t.Errorf(
				"whole bodies of %s agree in %.1f %%, which is less than %.1f",
				row,
				of.share["body"],
				least,
			)
		}
	}
}

// disagreements are the most frequent ones, each with an example.
func disagreements(results []*result, most int) string {
	count, example := map[string]int{}, map[string]string{}
	note := func(r *result, text, detail string) {
		text = r.row + " " + r.call.Method + ": " + text
		count[text]++
		if example[text] == "" {
			example[text] = r.name + " " +
				r.call.URL[min(len(r.call.URL), 28):min(len(r.call.URL), 160)] + " " + detail
		}
	}
	for _, r := range results {
		if r.verdict != "mismatch" {
			continue
		}
		for _, what := range columns {
			if good, known := r.good[what]; !known || good || what == "body" || what == "core" {
				continue
			}
			note(r, fmt.Sprintf("%s %v %v", what, r.status, r.code), "")
		}
		for _, d := range r.diff.all() {
			note(r, d.path, fmt.Sprintf("%.80q, ours %.80q", d.recorded, d.own))
		}
	}
	order := make([]string, 0, len(count))
	for text := range count {
		order = append(order, text)
	}
	slices.SortFunc(order, func(a, b string) int {
		if count[a] != count[b] {
			return count[b] - count[a]
		}
		return strings.Compare(a, b)
	})
	var b strings.Builder
	for _, text := range order[:min(most, len(order))] {
		fmt.Fprintf(&b, "%5d %s | %s\n", count[text], text, example[text])
	}
	return b.String()
}
