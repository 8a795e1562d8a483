// The form for a schedule, new or changed, with a preview while one types.
import { useEffect, useState } from 'preact/hooks';
import { html } from '../html.js';
import { call, change, get, inNamespace, Problem } from '../api.js';
import { usePoll } from '../live.js';
import { go, href } from '../router.js';
import { localZone } from '../settings.js';
import { describe } from '../rule.js';
import { bodyOf, formOf, repeatOf } from '../scheduleform.js';
import { t } from '../i18n.js';
import { say } from '../parts/toast.js';
import { Preview } from '../parts/runs.js';
import { Button, Card, Field, Loading, Refused } from '../parts/ui.js';

export function ScheduleEditor({ id }) {
  const known = usePoll((signal) => (id ? get(inNamespace(`/schedules/${encodeURIComponent(id)}`), {}, { signal })
    : Promise.resolve(null)), 0, [id]);
  if (id && !known.data) {
    return known.problem ? html`<${Refused} problem=${known.problem} retry=${known.refresh} />` : html`<${Loading} />`;
  }
  return html`<${Editor} id=${id} present=${known.data} />`;
}

// Editor keeps the schedule that the form was filled from: a later revision is somebody else's, and the form must not
// overwrite it.
function Editor({ id, present }) {
  const [known] = useState(present);
  const [form, setForm] = useState(() => formOf(known, localZone));
  const [problem, setProblem] = useState(null);
  const [busy, setBusy] = useState(false);
  const [zones, setZones] = useState([]); // to choose from
  const calendars = usePoll((signal) => get(inNamespace('/calendars'), {}, { signal }), 0);
  const preview = usePreview(form);
  const { body, wrong } = bodyOf(form, known);
  const faulty = Object.keys(wrong).length > 0;
  const put = (name) => (event) => setForm((f) => ({ ...f, [name]: event.target.value }));
  const submit = async (event) => {
    event.preventDefault();
    if (faulty) return;
    setBusy(true);
    setProblem(null);
    try {
      const path = inNamespace(`/schedules/${encodeURIComponent(id || form.id.trim())}`);
      const saved = id ? await change('PATCH', path, body, { headers: { 'If-Match': `"${known.revision}"` } })
        : await change('PUT', path, body, { headers: { 'If-None-Match': '*' } });
      say(t('schedule.saved', { id: saved.id }), '', id && (() => takeBack(path, saved)));
      go(href(`schedules/${encodeURIComponent(saved.id)}`));
    } catch (err) {
      if (!(err instanceof Problem)) throw err;
      setProblem(err);
      setBusy(false);
    }
  };
  const takeBack = async (path, saved) => {
    const { body: back } = bodyOf(formOf(known, ''), saved);
    await change('PATCH', path, back, { headers: { 'If-Match': `"${saved.revision}"` } });
    say(t('schedule.saved', { id }));
  };
  const text = (name, label, hint, more) => html`<${Field} label=${t(label)} hint=${hint && t(hint)}
    error=${wrong[name] && t('labels.wrong', { part: wrong[name] })}>
    ${(tied) => html`<input ...${tied} ...${more} value=${form[name]} onInput=${put(name)} autocomplete="off"
      spellcheck=${false} />`}<//>`;
  const choice = (name, label, values) => html`<${Field} label=${t(label)} hint=${t(`${name}.${form[name]}`)}>
    ${(tied) => html`<select ...${tied} value=${form[name]} onChange=${put(name)}>
      ${values.map((v) => html`<option value=${v}>${v}</option>`)}</select>`}<//>`;
  return html`
    <header class="page"><div><p class="crumb"><a href=${href('schedules')}>${t('nav.schedules')}</a></p><h1>
      ${id ? t('schedule.edit', { id }) : t('schedule.new')}</h1></div></header>
    <form class="columns" onSubmit=${submit}>
      <${Card} title=${t('schedule.rule')}><div class="fields">
        ${!id && text('id', 'id', 'schedule.idHint', { required: true, placeholder: 'report' })}
        <fieldset class="when"><legend>${t('schedule.kind')}</legend><div class="row">
          ${['cron', 'every'].map((kind) => html`<label>
            <input type="radio" name="kind" value=${kind} checked=${form.kind === kind}
              onChange=${put('kind')} /> ${t(`schedule.kind.${kind}`)}</label>`)}</div>
          ${form.kind === 'cron'
    ? html`<${Field} label=${t('schedule.cron')} hint=${t('schedule.cronHint')}
      error=${preview.problem?.field?.startsWith('repeat.cron') ? preview.problem.detail : ''}>
              ${(tied) => html`<textarea ...${tied} rows="2" required spellcheck=${false} class="code"
                value=${form.cron} onInput=${put('cron')}></textarea>`}<//>`
    : text('every', 'schedule.every', 'when.delayHint', { required: true })}
        </fieldset>
        ${text('zone', 'schedule.zone', '', { list: 'zones', onFocus: () => setZones(allZones) })}
        <datalist id="zones">${zones.map((z) => html`<option value=${z}></option>`)}</datalist>
        <${Field} label=${t('schedule.calendar')} hint=${t('schedule.calendarHint')}>
          ${(tied) => html`<select ...${tied} value=${form.calendar} onChange=${put('calendar')}><option value="">
            ${t('none')}</option>
            ${names(calendars.data, form.calendar).map((n) => html`<option value=${n}>${n}</option>`)}</select>`}<//>
        <details><summary>${t('newtask.more')}</summary><div class="fields">
          <${Field} label=${t('schedule.except')} hint=${t('schedule.exceptHint')}>
            ${(tied) => html`<textarea ...${tied} rows="2" class="code" spellcheck=${false} value=${form.except}
              onInput=${put('except')}></textarea>`}<//>
          ${text('jitter', 'schedule.jitter', 'schedule.jitterHint')}
          ${text('count', 'schedule.count', '', { type: 'number', min: 1 })}
          ${choice('overlap', 'schedule.overlap', ['skip', 'queue_one', 'queue_all', 'allow', 'cancel_previous'])}
          ${choice('misfire', 'schedule.misfire', ['latest', 'all', 'skip'])}
        </div></details>
        ${text('note', 'note', 'note.hint', { maxlength: 255 })}
      </div><//>
      <div class="stack">
        <${Card} title=${t('preview.title')}>
          <p><b>${describe(repeatOf(form))}</b></p>
          ${preview.problem && html`<${Refused} problem=${preview.problem} />`}
          ${preview.data ? html`<div class=${preview.data.repeat === JSON.stringify(repeatOf(form)) ? '' : 'faded'}
            aria-live="polite">
            <${Preview} preview=${preview.data} /></div>` : !preview.problem && html`<${Loading} />`}
        <//>
        <${Card} title=${t('schedule.task')}><div class="fields">
          ${text('queue', 'queue', 'newtask.queueHint', { placeholder: 'default' })}
          ${text('url', 'newtask.url', 'newtask.urlHint', { type: 'url', placeholder: 'https://shop.example/report' })}
          <${Field} label=${t('task.payload')} error=${wrong.payload}>
            ${(tied) => html`<textarea ...${tied} rows="4" class="code" spellcheck=${false} value=${form.payload}
              onInput=${put('payload')}></textarea>`}<//>
          ${text('labels', 'labels', 'filter.labelHint')}
        </div><//>
        <${Refused} problem=${problem} />
        <div class="row end"><${Button} type="submit" kind="primary" busy=${busy} disabled=${faulty}>${t('save')}<//>
          </div>
      </div>
    </form>`;
}

const names = (data, chosen) => [...new Set([...(data?.calendars || []).map((c) => c.name), chosen].filter(Boolean))];

// allZones returns the names of some hundred time zones.
function allZones() {
  return typeof Intl.supportedValuesOf === 'function' ? ['UTC', ...Intl.supportedValuesOf('timeZone')] : ['UTC'];
}

// usePreview asks for the rule's coming occurrences, a moment after the last key. Until they come, data has those of
// the rule before; a rule that is refused has none.
function usePreview(form) {
  const [state, setState] = useState({ data: null, problem: null });
  const repeat = JSON.stringify(repeatOf(form));
  useEffect(() => {
    const abort = new AbortController();
    const id = setTimeout(() => {
      call('POST', inNamespace('/preview'),
        { body: { repeat: JSON.parse(repeat), next: 10 }, signal: abort.signal }).then(
        (data) => setState({ data: { ...data, repeat }, problem: null }),
        (err) => err instanceof Problem && setState({ data: null, problem: err }),
      );
    }, 300);
    return () => {
      clearTimeout(id);
      abort.abort();
    };
  }, [repeat]);
  return state;
}
