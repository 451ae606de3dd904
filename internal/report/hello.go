package report

import (
	"fmt"
	"io"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"routekeeper.dev/routekeeper/internal/finding"
	"routekeeper.dev/routekeeper/internal/trace"
)

// Hello is the result of the calls between the demo's pods on a cluster.
type Hello struct {
	Cluster string      `json:"cluster"`
	Pods    []HelloPod  `json:"pods"`
	Calls   []HelloCall `json:"calls"`
	// Arrived counts the calls that were answered, or refused by a machine without the demo.
	Arrived int `json:"arrived"`
	// Unknown names the subnets for which it is unknown whether pods reach them, and says why.
	Unknown []string `json:"unknown"`
	// Findings explain the calls that did not arrive.
	Findings []finding.Finding `json:"findings"`
	// Page is the address of a pod's page, or "".
	Page string `json:"page,omitempty"`
	// Remove is the command that removes the demo, if it was left running.
	Remove string `json:"remove,omitempty"`
}

// HelloPod is a pod of the demo.
type HelloPod struct {
	Name    string     `json:"name"`
	Node    string     `json:"node"`
	Address netip.Addr `json:"address,omitzero"`
	Ready   bool       `json:"ready"`
	// Why says what a pod that is not ready waits for, or why it could not be asked to call.
	Why string `json:"why,omitempty"`
}

// HelloCall is a call from one pod to another one, or to an address in another subnet.
type HelloCall struct {
	From    string     `json:"from"`
	To      string     `json:"to"`
	Address netip.Addr `json:"address"`
	Arrived bool       `json:"arrived"`
	Result  string     `json:"result"`
	Millis  float64    `json:"millis"`
	// Routes are the routes of the packet, AnswerRoutes those of its answer; none if both ends are
	// on one node.
	Routes       []string `json:"routes"`
	AnswerRoutes []string `json:"answerRoutes"`
	// Traced is the verdict on the path, by the routes and rules in Azure. Why gives the reason.
	Traced trace.Verdict `json:"traced"`
	Why    string        `json:"why"`
}

// Whole reports whether every pod is ready and every call arrived.
func (h Hello) Whole() bool {
	for _, p := range h.Pods {
		if p.Why != "" || !p.Ready {
			return false
		}
	}
	return h.Arrived == len(h.Calls) && len(h.Calls) > 0
}

// maxGrid is the number of pods that fit a line of the matrix on a terminal.
const maxGrid = 14

// Write writes it in the given format.
func (h Hello) Write(w io.Writer, format Format, style Style) error {
	if format == JSON {
		return WriteJSON(w, h)
	}
	var b strings.Builder
	sentence, paint := "all "+finding.Count(len(h.Calls), "call")+" arrive", style.Green
	if !h.Whole() {
		sentence = fmt.Sprintf("%d of %s arrive", h.Arrived, finding.Count(len(h.Calls), "call"))
		paint = style.Red
	}
	b.WriteString(style.Bold("The demo on "+h.Cluster+": ") + paint(sentence+".") + "\n\n")
	table := Table{Header: []string{"#", "pod", "node", "address", ""}}
	for i, p := range h.Pods {
		state := style.Yellow(p.Why)
		if p.Why == "" && !p.Ready {
			state = style.Yellow("not ready")
		}
		address := ""
		if p.Address.IsValid() {
			address = p.Address.String()
		}
		table.Rows = append(table.Rows,
			[]string{strconv.Itoa(i + 1), plain(p.Name), plain(p.Node), address, state})
	}
	b.WriteString(table.text(style) + h.grid(style) + h.usedRoutes(style) + h.lostCalls(style))
	for _, line := range h.Unknown {
		b.WriteString(style.Dim("not known: "+line) + "\n")
	}
	b.WriteString(explained(h.Findings, style))
	return put(w, b.String())
}

// grid returns the matrix: a row for each calling pod, a column for each called pod, in
// milliseconds.
func (h Hello) grid(style Style) string {
	if len(h.Pods) > maxGrid || len(h.Pods) == 0 {
		return ""
	}
	at := map[[2]string]HelloCall{}
	for _, c := range h.Calls {
		at[[2]string{c.From, c.To}] = c
	}
	head := []string{style.Bold("ms")}
	for i := range h.Pods {
		head = append(head, style.Bold(strconv.Itoa(i+1)))
	}
	rows := [][]string{head}
	for i, from := range h.Pods {
		row := []string{style.Bold(strconv.Itoa(i + 1))}
		for _, to := range h.Pods {
			call, called := at[[2]string{from.Name, to.Name}]
			switch {
			case !called:
				row = append(row, style.Dim("-"))
			case !call.Arrived:
				row = append(row, style.Red("lost"))
			default:
				row = append(row, style.Green(strconv.FormatFloat(call.Millis, 'f', 1, 64)))
			}
		}
		rows = append(rows, row)
	}
	return "\n" + style.Bold("Row calls column") + "\n" + aligned(rows)
}

// usedRoutes lists the routes with the number of calls and answers that used them.
func (h Hello) usedRoutes(style Style) string {
	type load struct{ calls, answers int }
	loads := map[string]*load{}
	var order []string
	of := func(what string) *load {
		if loads[what] == nil {
			loads[what], order = &load{}, append(order, what)
		}
		return loads[what]
	}
	within := 0
	for _, c := range h.Calls {
		if !c.Arrived {
			continue
		}
		if len(c.Routes) == 0 && len(c.AnswerRoutes) == 0 {
			within++
		}
		for _, r := range c.Routes {
			of(r).calls++
		}
		for _, r := range c.AnswerRoutes {
			of(r).answers++
		}
	}
	slices.Sort(order)
	var rows [][]string
	const most = 20
	for _, what := range order[:min(most, len(order))] {
		rows = append(rows, []string{"  " + plain(what), finding.Count(loads[what].calls, "call"),
			finding.Count(loads[what].answers, "answer")})
	}
	if len(order) > most {
		rows = append(rows,
			[]string{fmt.Sprintf("  and %d more routes (-o json shows all)", len(order)-most)})
	}
	if within > 0 {
		rows = append(rows, []string{"  within one node, without a route",
			finding.Count(within, "call"), finding.Count(within, "answer")})
	}
	if len(rows) == 0 {
		return ""
	}
	return "\n" + style.Bold("Routes used") + "\n" + aligned(rows)
}

// lostCalls lists the calls that did not arrive, grouped by reason.
func (h Hello) lostCalls(style Style) string {
	byWhy := map[string][]HelloCall{}
	var order []string
	for _, c := range h.Calls {
		if c.Arrived {
			continue
		}
		why := strings.ReplaceAll(c.Why, c.Address.String(), "the called address")
		if c.Traced == trace.Delivered {
			why = "according to the routes and rules in Azure the packet arrives: check network " +
				"policies, and the pods and nodes"
		}
		if byWhy[why] == nil {
			order = append(order, why)
		}
		byWhy[why] = append(byWhy[why], c)
	}
	var b strings.Builder
	for _, why := range order {
		calls := byWhy[why]
		fmt.Fprintf(&b, "\n%s %s: %s\n", style.Red("lost"), finding.Count(len(calls), "call"), plain(why))
		first := calls[0]
		fmt.Fprintf(&b, "  such as %s to %s (%s): %s\n", plain(first.From), plain(first.To),
			first.Address, plain(first.Result))
	}
	if len(order) > 0 && len(h.Findings) == 0 {
		b.WriteString("  no finding of routekeeper doctor explains this\n")
	}
	return b.String()
}
