// This file checks this user's access to probes and ports, and reports the probes' firmware (Linux).

package toolbox

import (
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"

	"github.com/boardsmith/boardsmith/internal/attached"
)

// Access returns findings about this user's access to boards.
func Access() []Finding {
	if runtime.GOOS != "linux" {
		return nil
	}

	devices := attached.USBDevices()
	list := []Finding{inGroup("dialout", "serial ports"), inGroup("plugdev", "debug probes"), udevRules()}

	for _, d := range devices {
		if kind := attached.ProbeKind(d.ID); kind != "" {
			list = append(list, canOpen(d, kind))
		}
	}
	return list
}

// inGroup checks whether the user is in a group; root needs none.
func inGroup(group, use string) Finding {
	f := Finding{
		Tool: Tool{Name: "group " + group, Use: use},
		Fix:  "sudo usermod -aG " + group + " $USER, then log in again",
	}

	if os.Geteuid() == 0 {
		f.Installed, f.Version = true, "root may open them all"
		return f
	}

	g, err := user.LookupGroup(group)
	if err != nil {
		f.Reason, f.Fix = "there is no such group", "udev rules with uaccess give access to the user at the computer"
		return f
	}

	mine, _ := os.Getgroups() // after an error there are none
	for _, id := range mine {
		if fmt.Sprint(id) == g.Gid {
			f.Installed, f.Version = true, "this user is in it"
			return f
		}
	}

	f.Reason = "this user is not in it"
	return f
}

// ruleFolders are udev's folders of rules.
var ruleFolders = []string{
	"/etc/udev/rules.d", "/run/udev/rules.d", "/usr/local/lib/udev/rules.d",
	"/usr/lib/udev/rules.d", "/lib/udev/rules.d",
}

// probeRule matches a rule about a debug probe: by ST's, Arm's or SEGGER's vendor id.
var probeRule = regexp.MustCompile(`(?i)idVendor\}=="(0483|0d28|1366)"|CMSIS-DAP`)

func udevRules() Finding {
	f := Finding{Tool: Tool{Name: "udev rules", Use: "debug probes without root"}}
	for _, dir := range ruleFolders {
		files, _ := filepath.Glob(filepath.Join(dir, "*.rules")) // the pattern is valid
		for _, file := range files {
			if text, err := os.ReadFile(file); err == nil && probeRule.Match(text) {
				f.Installed, f.Version = true, file
				return f
			}
		}
	}

	f.Reason = "no rule lets users open debug probes"
	f.Fix = "sudo apt-get install openocd brings /lib/udev/rules.d/60-openocd.rules; then: sudo udevadm control " +
		"--reload && sudo udevadm trigger"

	if _, err := exec.LookPath("udevadm"); err != nil {
		f.Reason += ", and there is no udev here (a container has its host's)"
	}

	return f
}

// firmwareHints maps kinds of probe to how to update their firmware.
var firmwareHints = []struct{ kind, hint string }{
	{"ST-Link", "an old one cannot do SWD multi-drop and is slow: ST's STSW-LINK007 updates it"},
	{"STLINK", "ST's STSW-LINK007 updates it"},
	{"CMSIS-DAP", "version 2 (bulk transfers) is several times as fast: daplink.io has it for each board"},
	{"J-Link", "SEGGER's J-Link Configurator updates it"},
	{"Raspberry Pi", "github.com/raspberrypi/debugprobe has releases"},
	{"MCU-Link", "NXP's MCU-Link installer updates it"},
}

// canOpen checks whether this user can open a probe, and reports its firmware release.
func canOpen(d attached.USBDevice, kind string) Finding {
	f := Finding{Tool: Tool{Name: "probe " + d.Path, Use: kind}, Installed: true}
	f.Version = fmt.Sprintf("%s, serial %s, firmware release %s", d.Product, d.Serial, d.Release)

	if i := slices.IndexFunc(firmwareHints,
		func(h struct{ kind, hint string }) bool { return strings.HasPrefix(kind, h.kind) }); i >= 0 {
		f.Version += "; " + firmwareHints[i].hint
	}

	// Only an attempt shows what groups, rules and access lists allow together.
	file, err := os.OpenFile(d.Node, os.O_RDWR, 0)
	if err != nil {
		f.Installed, f.Reason, f.Fix = false, err.Error(), "see group plugdev and udev rules above, then plug it in again"
		return f
	}

	file.Close()
	return f
}
