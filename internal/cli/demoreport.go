package cli

import (
	"fmt"
	"io"
	"strings"
	"time"

	"routekeeper.dev/routekeeper/internal/demo"
	"routekeeper.dev/routekeeper/internal/emulator"
	"routekeeper.dev/routekeeper/internal/report"
)

// demoReport shows the demo while it runs: as text, or as lines of JSON.
type demoReport struct {
	w      io.Writer
	format report.Format
	style  report.Style

	scenes, good int
}

// sceneLine and summaryLine are the demo's JSON lines (docs/json.md).
type sceneLine struct {
	Scene     string `json:"scene"`
	OK        bool   `json:"ok"`
	ElapsedMs int64  `json:"elapsedMs"`
	ARMReads  int    `json:"armReads"`
	ARMWrites int    `json:"armWrites"`
	ARMPolls  int    `json:"armPolls"`
	Detail    string `json:"detail"`
}

type summaryLine struct {
	Scene     string `json:"scene"`
	OK        bool   `json:"ok"`
	Scenes    int    `json:"scenes"`
	Failed    int    `json:"failed"`
	ElapsedMs int64  `json:"elapsedMs"`
}

// started shows what is in the emulator.
func (d *demoReport) started(info emulator.Info, in emulator.Demo, web emulator.Firewalled) error {
	if d.format == report.JSON {
		return nil
	}
	rows := [][]string{
		{"  cluster", in.Cluster.Short(), "kubenet, 3 nodes, pod CIDR 10.244.0.0/16"},
		{"  its route table", in.ClusterTable.Short(),
			"existing; also routes 0.0.0.0/0 to a firewall"},
		{"  node subnet", in.NodeSubnet.Short(), "existing"},
		{"  gateway subnet", in.GatewaySubnet.Short(),
			"an Application Gateway, with the route table " + in.GatewayTable.Short()},
		{"  another cluster", web.Cluster.Short(), "Azure CNI Overlay, behind a firewall"},
	}
	head := "A local Azure emulator listens on " + info.HTTPS + ", with:"
	return d.lines(append([]string{head}, report.Columns(rows)...)...)
}

func (d *demoReport) scene(s demo.Scene) error {
	d.scenes++
	mark, paint := "ok  ", d.style.Green
	if s.OK {
		d.good++
	} else {
		mark, paint = "FAIL", d.style.Red
	}
	if d.format == report.JSON {
		return report.WriteJSON(d.w, sceneLine{s.Name, s.OK, s.Elapsed.Milliseconds(),
			s.Reads, s.Writes, s.Polls, s.Detail})
	}
	lines := []string{"", fmt.Sprintf("%s %s  %s", paint(mark), d.style.Bold(s.Name), s.Title)}
	for _, line := range report.ChangeLines(s.Changes, d.style) {
		lines = append(lines, "       "+line)
	}
	calls := report.Calls{Reads: s.Reads, Writes: s.Writes, Polls: s.Polls}
	return d.lines(append(lines,
		"     "+s.Detail,
		"     "+d.style.Dim(report.Duration(s.Elapsed)+"; ARM: "+calls.String()))...)
}

// say writes a line about the demo itself.
func (d *demoReport) say(line string) error { return d.lines("", line) }

// summary ends the demo: whether all scenes went as expected, and how long they took.
func (d *demoReport) summary(ok bool, elapsed time.Duration) error {
	if d.format == report.JSON {
		return report.WriteJSON(d.w,
			summaryLine{"summary", ok, d.scenes, d.scenes - d.good, elapsed.Milliseconds()})
	}
	text := fmt.Sprintf("%d of %d scenes ok in %s.", d.good, d.scenes, report.Duration(elapsed))
	if ok {
		return d.lines("", d.style.Green(text))
	}
	return d.lines("", d.style.Red(text))
}

func (d *demoReport) lines(lines ...string) error {
	_, err := io.WriteString(d.w, strings.Join(lines, "\n")+"\n")
	return err
}
