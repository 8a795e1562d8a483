// The parts of a browser that the modules need, for tests without a browser.
globalThis.document ||= { documentElement: { dataset: {} } };
globalThis.navigator ||= { language: 'en' };
globalThis.location ||= { origin: 'http://localhost', pathname: '/ui/', search: '' };
globalThis.addEventListener ||= () => {};
