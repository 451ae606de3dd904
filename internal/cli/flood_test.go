package cli

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/emulator"
	"routekeeper.dev/routekeeper/internal/openfiles"
)

// flooded is a keeper that listens, with a limit of open files, an emulator, and its attackers.
type flooded struct {
	*azureOf
	t       *testing.T
	dir     string
	pid     int
	address string
	attacks atomic.Int64 // connections that attackers have opened
}

const floodInterval = time.Second

func needsLinux(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("NOT RUN: it needs many loopback addresses, /proc, and sockets of systemd")
	}
}

// newFlooded starts the keeper, with these variables in its environment.
func newFlooded(t *testing.T, opts emulator.Options, files int, env []string,
	flags ...string) *flooded {
	needsLinux(t)
	a, dir, az, config := promoted(t, opts)
	f := &flooded{t: t, dir: dir, azureOf: a}
	routekeeper(t, "--emulator", az, "sync", "-f", config, "--yes")
	log, err := os.Create(f.file("log"))
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	run := exec.Command("sh", append([]string{"-c",
		fmt.Sprintf(`ulimit -n %d; exec "$@"`, files), "sh", "routekeeper", "--emulator", az, "run",
		"-f", config, "--interval", floodInterval.String(), "--listen", "127.0.0.1:0",
		"-o", "json", "--out", f.file("checks.json")}, flags...)...)
	run.Stderr, run.Env = log, append(os.Environ(), env...)
	if err := run.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { run.Process.Kill(); _ = run.Wait() })
	f.pid = run.Process.Pid
	listens := regexp.MustCompile(`"msg":"listening","address":"([^"]*)"`)
	f.until("the keeper listens", time.Minute, func() bool {
		found := listens.FindStringSubmatch(f.read("log"))
		if found == nil {
			return false
		}
		f.address = found[1]
		return strings.Contains(f.read("checks.json"), "\n") // a check has ended
	})
	return f
}

func (f *flooded) file(name string) string { return filepath.Join(f.dir, name) }

func (f *flooded) read(name string) string {
	text, err := os.ReadFile(f.file(name))
	if err != nil && !os.IsNotExist(err) {
		f.t.Fatal(err)
	}
	return string(text)
}

// until waits, and returns how long.
func (f *flooded) until(what string, longest time.Duration, is func() bool) time.Duration {
	f.t.Helper()
	began := time.Now()
	for !is() {
		if time.Since(began) > longest {
			f.t.Fatalf("not within %s: %s; %d connections were opened; the log:\n%s", longest, what,
				f.attacks.Load(), f.read("log"))
		}
		time.Sleep(20 * time.Millisecond)
	}
	return time.Since(began)
}

// open is how many files the keeper has open.
func (f *flooded) open() int {
	entries, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", f.pid))
	if err != nil {
		f.t.Fatal(err)
	}
	return len(entries)
}

// dial opens a connection from one of this machine's addresses.
func (f *flooded) dial(ctx context.Context, from string) (net.Conn, error) {
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}, Timeout: 5 * time.Second}
	return d.DialContext(ctx, "tcp", f.address)
}

// attack keeps a number of hanging connections from 40 addresses, half of them within a header. An
// attacker that holds all of them replaces its oldest ones. The returned function ends the attack.
func (f *flooded) attack(most int) (end func()) {
	const attackers = 40
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{}, attackers)
	for n := range attackers {
		go func() {
			defer func() { ended <- struct{}{} }()
			held := make([]net.Conn, most/attackers)
			for i := 0; ctx.Err() == nil; i++ {
				slot := i % len(held)
				if held[slot] != nil {
					held[slot].Close()
					time.Sleep(20 * time.Millisecond) // 2,000 reconnections a second
				}
				c, err := f.dial(ctx, fmt.Sprintf("127.0.1.%d", 1+n))
				if err != nil {
					held[slot] = nil
					continue
				}
				if i%2 == 0 {
					fmt.Fprint(c, "GET / HTTP/1.1\r\nHost: localhost\r\nX-")
				}
				held[slot] = c
				f.attacks.Add(1)
			}
			for _, c := range held {
				if c != nil {
					c.Close()
				}
			}
		}()
	}
	return func() {
		cancel()
		for range attackers {
			<-ended
		}
	}
}

// checks is how many checks the keeper has begun: it reads the cluster once in each.
func (f *flooded) checks() (n int) {
	for _, r := range f.e.Requests(0) {
		if r.Method == "GET" && r.Principal == emulator.DefaultPrincipal.Name &&
			arm.ID(r.Path).Equal(f.demo.Cluster) {
			n++
		}
	}
	return n
}

// repaired strips a subnet, and returns how long it takes until it has its table again.
func (f *flooded) repaired(subnet arm.ID, longest time.Duration) time.Duration {
	f.t.Helper()
	if err := f.strip(subnet); err != nil {
		f.t.Fatal(err)
	}
	return f.until("a lost association is repaired", longest, func() bool {
		return strings.Contains(f.document(f.t, subnet), `"routeTable"`)
	})
}

// get calls the keeper as another client.
func (f *flooded) get(path string) (int, string, error) {
	client := http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return f.dial(ctx, "127.0.2.1")
		}}}
	response, err := client.Get("http://" + f.address + path)
	if err != nil {
		return 0, "", err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	return response.StatusCode, string(body), err
}

// TestFlooded: 10,000 connections hang at a keeper that may have 256 files open. Lost associations
// are repaired by the next check, other clients are answered, and nothing runs out of files.
func TestFlooded(t *testing.T) {
	t.Parallel()
	f := newFlooded(t, emulator.Options{}, 256, nil)
	most := int(min(10_000, openfiles.Limit()/2))
	end := f.attack(most)
	defer end()
	f.until("all attackers hang", time.Minute, func() bool {
		return f.attacks.Load() >= int64(most)
	})
	var slowest time.Duration
	mostFiles, mostChecks := 0, 0
	for range 2 {
		for _, subnet := range []arm.ID{f.demo.NodeSubnet, f.demo.GatewaySubnet} {
			before := f.checks()
			slowest = max(slowest, f.repaired(subnet, time.Minute))
			mostChecks = max(mostChecks, f.checks()-before)
			mostFiles = max(mostFiles, f.open())
		}
		if status, body, err := f.get("/livez"); status != http.StatusOK {
			t.Errorf("/livez: %d %s %v", status, body, err)
		}
	}
	// The one that was under way, the one that repairs, and one that had begun when this was seen.
	if mostChecks > 3 {
		t.Errorf("an association is lost for %d checks", mostChecks)
	}
	if mostFiles > 200 {
		t.Errorf("%d of 256 files are open", mostFiles)
	}
	for _, text := range []string{"too-many-open-files", "paused", "too many open files",
		"config was read again"} {
		if strings.Contains(f.read("log")+f.read("checks.json"), text) {
			t.Errorf("the keeper says %q:\n%s", text, f.read("log"))
		}
	}
	t.Logf("%d hanging connections, %d opened in all: repaired after at most %s, %d files open",
		most, f.attacks.Load(), slowest.Round(10*time.Millisecond), mostFiles)
}

// TestOutOfFiles: a keeper that can open no more files says so, with the limit and what to do. It
// does not take itself for paused or its config for changed, and still repairs. It still sends
// systemd signs of life: otherwise systemd would kill it every half a minute.
func TestOutOfFiles(t *testing.T) {
	t.Parallel()
	beats, env := watchedBySystemd(t, 100*time.Millisecond)
	f := newFlooded(t, emulator.Options{}, 26, env)
	end := f.attack(200)
	f.until("the finding", time.Minute, func() bool {
		return strings.Contains(f.read("checks.json"), `"too-many-open-files"`)
	})
	began, before := time.Now(), beats.Load()
	f.repaired(f.demo.NodeSubnet, time.Minute)
	f.until("many signs of life", time.Minute, func() bool { return beats.Load()-before > 20 })
	t.Logf("%d signs of life within %s", beats.Load()-before, time.Since(began))
	end()
	if log := f.read("log"); strings.Contains(log, "cannot notify systemd") {
		t.Errorf("signs of life were lost:\n%s", log)
	}
	for where, text := range map[string]string{"checks.json": f.read("checks.json"),
		"the log": f.read("log"), "the page": f.page()} {
		for _, want := range []string{"cannot open more files: 26 of 26 are open", "LimitNOFILE=",
			fmt.Sprintf("sudo prlimit --pid %d --nofile=", f.pid),
			"connections of callers: "} {
			if !strings.Contains(text, want) {
				t.Errorf("%s does not say %q:\n%s", where, want, text)
			}
		}
		for _, not := range []string{`"paused"`, "config was read again", "config has an error"} {
			if strings.Contains(text, not) {
				t.Errorf("%s says %q", where, not)
			}
		}
	}
}

// watchedBySystemd makes a program with this environment expect a watchdog, and counts its signs of
// life.
func watchedBySystemd(t *testing.T, interval time.Duration) (*atomic.Int64, []string) {
	needsLinux(t)
	dir, err := os.MkdirTemp("", "rk") // the path of a socket must be short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	path := filepath.Join(dir, "notify")
	socket, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { socket.Close() })
	var beats atomic.Int64
	go func() {
		for text := make([]byte, 100); ; {
			n, err := socket.Read(text)
			if err != nil {
				return
			}
			if string(text[:n]) == "WATCHDOG=1" {
				beats.Add(1)
			}
		}
	}()
	return &beats, []string{"NOTIFY_SOCKET=" + path, "WATCHDOG_PID=",
		fmt.Sprintf("WATCHDOG_USEC=%d", interval.Microseconds())}
}

// page is the overview as JSON.
func (f *flooded) page() string {
	status, body, err := f.get("/index.json")
	if err != nil || status != http.StatusOK {
		f.t.Errorf("the page: %d %v", status, err)
	}
	return body
}
