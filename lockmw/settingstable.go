package lockmw

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/lockmw/kit/internal/settings"
)

// What settings make of a policy. A call of Acquire looks its policy up in a table that nobody changes: when other settings
// apply, another table takes its place. The table remembers the policies that came, so that a call does no more than find its own.

const (
	// mostSettingNames is how many Names a table remembers, and mostSettingPolicies how many policies of each. Further ones
	// are judged again at each call. As many Names have room besides whose work a setting has run without its lock: operators must
	// see that.
	mostSettingNames    = 1000
	mostSettingPolicies = 16

	// leastLoweredTTL is how far a setting may lower a TTL. Below, one pause of the process or of Redis loses leases.
	leastLoweredTTL = 5 * time.Second

	// leastLoweredMaxHold is how far a setting may lower a MaxHold. Handlers that are told to stop before they have begun answer nothing.
	leastLoweredMaxHold = time.Second

	// mostSettingRefusals is how many refusals of one setting are kept for operators. Behind them stands that there are more.
	mostSettingRefusals = 20
)

// A use is what a policy is used for: some cannot do with each change.
type use uint8

const (
	forAcquire use = iota
	forOnce
	forDo
	forLeader
	forResume
)

// A liveSetting is an entry of a source that is for this service. Its fields do not change, but for the last.
type liveSetting struct {
	pattern settings.Pattern
	entry   settings.Entry
	source  string
	since   time.Time
	ends    end
	denied  bool // it would have work run without its lock, and the program does not allow that: it changes no policy

	refused []string // why it does not apply to which Name; the mutex of the keeper guards it
}

// A settingsTable has the settings that apply, and what they make of policies.
type settingsTable struct {
	lives []*liveSetting                       // the first that matches counts
	more  map[*liveSetting]bool                // those that are off for Names for which there is no room; the mutex of the keeper guards it
	slots atomic.Pointer[map[string]*nameSlot] // by Name; a map that nobody changes
	quick [256]atomic.Pointer[verdict]         // some of the verdicts, which are found without the map: see place
}

// A nameSlot has the setting of a Name, and what it makes of the policies that came with it.
type nameSlot struct {
	live     *liveSetting              // nil: there is none
	verdicts atomic.Pointer[[]verdict] // nobody changes them
}

// A verdict is what a setting makes of one policy.
type verdict struct {
	given   Policy // as the caller wrote it
	use     use
	changes bool // it is another one
	off     bool // work runs without its lock
	policy  Policy
	ends    end // of what lets work run without its lock, off or shadow: it ends in time also where the process was stopped
}

// find returns the slot's verdict on p, or nil.
func (n *nameSlot) find(p *Policy, use use) *verdict {
	verdicts := n.verdicts.Load()
	if verdicts == nil {
		return nil
	}
	for i := range *verdicts {
		if v := &(*verdicts)[i]; v.use == use && v.given == *p {
			return v
		}
	}
	return nil
}

// add remembers a verdict, while there is room. The first by which work runs without its lock has the place of another one where
// there is none, so that the Name is known for it. The caller holds the keeper's mutex.
func (n *nameSlot) add(v verdict) {
	verdicts := slices.Clone(n.all())
	switch {
	case len(verdicts) < mostSettingPolicies:
		verdicts = append(verdicts, v)
	case v.isLockless() && !n.any((*verdict).isLockless):
		verdicts[len(verdicts)-1] = v
	default:
		return
	}
	n.verdicts.Store(&verdicts)
}

// newSettingsTable returns a table with these settings, and the names and policies that were known before; and the names that are no longer in
// shadow. The caller holds the keeper's mutex.
func (k *settingsKeeper) newSettingsTable(lives []*liveSetting) (t *settingsTable, enforced []string) {
	t = &settingsTable{lives: lives, more: make(map[*liveSetting]bool)}
	slots := make(map[string]*nameSlot)
	if before := k.table.Load(); before != nil {
		for name, slot := range *before.slots.Load() {
			live := t.settingOf(k.service, name)
			if live == slot.live {
				slots[name] = slot
				continue
			}
			now := &nameSlot{live: live}
			for _, v := range slot.all() {
				now.add(k.judge(live, v.given, v.use))
			}
			slots[name] = now
			if slot.any((*verdict).inShadow) && !now.any((*verdict).inShadow) {
				enforced = append(enforced, name)
			}
		}
	}
	for name, slot := range slots { // those that had room because their work ran without its lock
		if len(slots) <= mostSettingNames {
			break
		}
		if !slot.any((*verdict).isLockless) {
			delete(slots, name)
		}
	}
	t.slots.Store(&slots)
	return t, enforced
}

func (n *nameSlot) all() []verdict {
	if verdicts := n.verdicts.Load(); verdicts != nil {
		return *verdicts
	}
	return nil
}

// names returns for each setting the Names with a policy of which is says so, of those that came, in order.
func (t *settingsTable) names(is func(*verdict) bool) map[*liveSetting][]string {
	names := make(map[*liveSetting][]string)
	for name, slot := range *t.slots.Load() {
		if slot.any(is) {
			names[slot.live] = append(names[slot.live], name)
		}
	}
	for _, of := range names {
		slices.Sort(of)
	}
	return names
}

// any reports whether is says so of one of the slot's verdicts.
func (n *nameSlot) any(is func(*verdict) bool) bool {
	all := n.all()
	for i := range all {
		if is(&all[i]) {
			return true
		}
	}
	return false
}

// What verdicts may be.
func (v *verdict) applies() bool { return v.changes }
func (v *verdict) isOff() bool   { return v.off }

// tries reports whether a policy is in shadow by its setting.
func (v *verdict) tries() bool { return v.changes && v.policy.Shadow && !v.given.Shadow }

// inShadow reports whether a policy is in shadow, by its setting or by the program.
func (v *verdict) inShadow() bool {
	if v.changes {
		return v.policy.Shadow
	}
	return v.given.Shadow
}

// isLockless reports whether work runs without its lock by its setting.
func (v *verdict) isLockless() bool { return v.off || v.tries() }

// settingOf returns the setting for a Name, or nil. One that the program does not allow is as if it were not there: what an operator has set
// elsewhere counts, such as that a trial is over.
func (t *settingsTable) settingOf(service, name string) *liveSetting {
	for _, live := range t.lives {
		if !live.denied && live.pattern.Matches(service, name) {
			return live
		}
	}
	return nil
}

// adjust makes of p what the settings say, and reports whether its work runs without a lock.
func (k *settingsKeeper) adjust(p *Policy, use use) (off bool) {
	t := k.table.Load()
	at := &t.quick[place(p.calledAs(), use)]
	v := at.Load()
	if v == nil || v.use != use || v.given != *p {
		if v = k.verdictOn(t, at, p, use); v == nil {
			return false
		}
	}
	if !v.ends.isNever() && v.ends.isOver(now()) {
		return false
	}
	if v.changes {
		*p = v.policy
	}
	return v.off
}

// place is where a table has a policy's verdict that is found without the map, unless another one is there already. It is far
// cheaper than the hash of a map, and names of a program differ in these letters more often than not.
func place(name string, use use) uint8 {
	n := len(name)
	if n == 0 {
		return uint8(use)
	}
	return uint8(n) + name[0]*7 + name[n/2]*31 + name[n-1]*131 + uint8(use)*64
}

// verdictOn is what the table makes of p. One that is at no place has that from now on if it is free. Of a policy that is invalid there
// is none: its claim refuses it.
func (k *settingsKeeper) verdictOn(t *settingsTable, at *atomic.Pointer[verdict], p *Policy, use use) *verdict {
	if slot := (*t.slots.Load())[p.calledAs()]; slot != nil {
		if v := slot.find(p, use); v != nil {
			at.CompareAndSwap(nil, v)
			return v
		}
	}
	return k.verdictOnNew(p, use)
}

// calledAs is the Name of the policy, or its Prefix.
func (p *Policy) calledAs() string {
	if p.Name == "" {
		return p.Prefix
	}
	return p.Name
}

// verdictOnNew is verdictOn for a policy that the table does not know.
func (k *settingsKeeper) verdictOnNew(p *Policy, use use) *verdict {
	if k.locker.Validate(*p) != nil {
		return nil
	}
	name := strings.Clone(p.calledAs())
	k.mu.Lock()
	defer k.mu.Unlock()
	t := k.table.Load()
	slots := *t.slots.Load()
	slot, known := slots[name]
	if !known {
		slot = &nameSlot{live: t.settingOf(k.service, name)}
	}
	if v := slot.find(p, use); v != nil {
		return v
	}
	v := k.judge(slot.live, *p, use)
	wasOff := slot.any((*verdict).isOff)
	slot.add(v)
	switch {
	case known:
	case len(slots) < mostSettingNames, v.isLockless() && len(slots) < 2*mostSettingNames:
		more := maps.Clone(slots)
		more[name] = slot
		t.slots.Store(&more)
	case v.off:
		wasOff = t.more[slot.live]
		t.more[slot.live] = true
	}
	if v.off && !wasOff {
		k.shoutAtOnce(slot.live, name)
	}
	return &v
}

// judge says what a setting makes of a policy, and tells where it does not fit. The caller holds the keeper's mutex.
func (k *settingsKeeper) judge(live *liveSetting, given Policy, use use) verdict {
	v := verdict{given: given, use: use}
	if live == nil {
		return v
	}
	merged, err := merge(given, live.entry.Change, use, k.mayOff)
	if err == nil {
		err = k.locker.Validate(merged)
	}
	if err != nil {
		k.refuse(live, &given, err)
		return v
	}
	v.changes, v.off, v.policy = true, live.entry.Off, merged
	if v.isLockless() {
		v.ends = live.ends
	}
	return v
}

// merge returns p with the change, or why that does not fit. mayOff says that the program lets work go on beside others.
func merge(p Policy, c settings.Change, use use, mayOff bool) (Policy, error) {
	shorter := c.MaxHold > 0 && (p.MaxHold == 0 || c.MaxHold < p.MaxHold)
	switch {
	case c.Wait != 0 && use == forLeader:
		return p, fmt.Errorf("wait does not fit a Leader, whose election goes on for as long as the context of Run lives")
	case c.Wait > 0 && use == forOnce:
		return p, fmt.Errorf("wait does not fit Once, which would run the job after the one that holds the lock")
	case c.Off && use == forDo:
		return p, fmt.Errorf("off does nothing for Do and Idempotent: without the lock the work would be done twice")
	case c.Off && use == forLeader:
		return p, fmt.Errorf("off does nothing for a Leader: there would be several")
	case c.Off && use == forOnce:
		return p, fmt.Errorf("off does nothing for Once: each process would do the job")
	case c.Off && use == forResume:
		return p, fmt.Errorf("off does nothing for Resume: work that was begun under the lock goes on under it")
	case shorter && (use == forDo || use == forLeader):
		return p, fmt.Errorf("maxHold=%v is shorter than the program's: the lock would come free while the work may go on, which does not fit Do, Idempotent and a Leader", c.MaxHold)
	case shorter && c.MaxHold < leastLoweredMaxHold:
		return p, fmt.Errorf("maxHold=%v lowers MaxHold to less than %v", c.MaxHold, leastLoweredMaxHold)
	case shorter && !mayOff:
		return p, fmt.Errorf("maxHold=%v is shorter than the program's: work that does not heed its context would go on beside the next holder's, and the program does not allow that (AllowOff)", c.MaxHold)
	case c.Shadow == settings.True && use != forAcquire:
		return p, fmt.Errorf("shadow does not fit Do, Idempotent, Once, Resume and a Leader: everybody would do the work")
	case c.TTL != 0 && c.TTL < leastLoweredTTL && c.TTL < p.withDefaults().TTL:
		return p, fmt.Errorf("ttl=%v lowers a TTL of %v to less than %v", c.TTL, p.withDefaults().TTL, leastLoweredTTL)
	}
	switch {
	case c.Wait > 0:
		p.Wait, p.Retries = c.Wait, 0
	case c.Wait == settings.None:
		p.Wait, p.Retries = 0, 0
	}
	switch {
	case c.MaxHold > 0:
		p.MaxHold = c.MaxHold
	case c.MaxHold == settings.None:
		p.MaxHold = 0
	}
	if c.TTL != 0 {
		p.TTL = c.TTL
	}
	if c.Shadow != settings.Absent {
		p.Shadow = c.Shadow == settings.True
	}
	return p, nil
}

// refuse notes for operators that a setting does not fit a policy, and logs it, once. The caller holds the keeper's mutex.
func (k *settingsKeeper) refuse(live *liveSetting, p *Policy, err error) {
	text := fmt.Sprintf("%s: %s", p.calledAs(), strings.TrimPrefix(err.Error(), "lockmw: "))
	switch {
	case slices.Contains(live.refused, text), len(live.refused) > mostSettingRefusals:
		return
	case len(live.refused) == mostSettingRefusals:
		live.refused = append(live.refused, "… and further policies")
		k.loud.Warn("lockmw: a setting does not fit further policies, which stay as the program has them, and are not named",
			"setting", live.pattern.String(), "change", live.entry.Change.String(), "source", live.source)
		return
	}
	live.refused = append(live.refused, text)
	k.loud.Warn("lockmw: a setting does not fit a policy, which stays as the program has it",
		"name", p.calledAs(), "setting", live.pattern.String(), "change", live.entry.Change.String(), "source", live.source, "reason", err)
}
