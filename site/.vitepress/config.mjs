// The site: docs/ as static pages. `make site` builds it into bin/site, and .ci/site checks it.
import { defineConfig } from 'vitepress';
import { fileURLToPath } from 'node:url';
import { anchor } from '../lib/anchor.mjs';
import { lighten } from '../lib/html.mjs';
import { adapt, codeHost } from '../lib/markdown.mjs';
import { sidebars } from '../lib/outline.mjs';

const here = (path) => fileURLToPath(new URL(path, import.meta.url));
const description = 'A clustered, replicated timer service: what to deliver and when, over HTTP.';

export default defineConfig({
  title: 'Belfry',
  description,
  base: process.env.BELFRY_SITE_BASE || '/',
  srcDir: '../docs',
  srcExclude: ['**/node_modules/**'],
  outDir: process.env.BELFRY_SITE_OUT || here('../../bin/site'),
  cacheDir: here('../node_modules/.cache/vitepress'),
  cleanUrls: false,
  lastUpdated: false,
  head: [
    ['link', { rel: 'icon', type: 'image/svg+xml', href: `${process.env.BELFRY_SITE_BASE || '/'}bell.svg` }],
    ['meta', { name: 'theme-color', content: '#8a5a1c' }],
  ],
  markdown: {
    anchor: { slugify: anchor },
    toc: { slugify: anchor },
    headers: { slugify: anchor },
    theme: { light: 'github-light-high-contrast', dark: 'github-dark-high-contrast' },
    config: adapt,
  },
  vite: {
    resolve: { alias: [{ find: /^vue\/server-renderer$/, replacement: here('../node_modules/vue/server-renderer/index.mjs') },
      { find: /^vue$/, replacement: here('../node_modules/vue/dist/vue.runtime.esm-bundler.js') }] },
    publicDir: here('./public'),
    plugins: [{
      // The theme asks a server for icons that it does not know. It knows the icons of this site.
      name: 'no-foreign-icons',
      enforce: 'pre',
      transform: (code, id) => (/VPSocialLink\.vue$/.test(id)
        ? code.replaceAll('https://api.iconify.design/simple-icons/', '') : undefined),
    }],
    build: { chunkSizeWarningLimit: 2000 },
  },
  transformHtml: (html, id) => (id.endsWith('404.html') ? undefined : lighten(html)),
  // The first pages are laid out as a page of their own, although they are plain Markdown.
  transformPageData(page) {
    const first = /^(zh\/)?index\.md$/.test(page.relativePath);
    if (first) Object.assign(page.frontmatter, { pageClass: 'first', aside: false });
    if (page.relativePath === 'reference/api.md') page.frontmatter.outline = 2;
  },
  themeConfig: {
    logo: '/bell.svg',
    search: { provider: 'local', options: {
      miniSearch: { options: {
        // Words of Chinese are not set apart by spaces.
        tokenize: (text) => text.split(/[\n\r\p{Z}\p{P}]+/u).flatMap((word) => (/\p{Script=Han}/u.test(word)
          ? [...new Intl.Segmenter('zh', { granularity: 'word' }).segment(word)].map((s) => s.segment) : [word])),
      } },
      locales: { zh: { translations: {
        button: { buttonText: '搜索', buttonAriaLabel: '搜索' },
        modal: { noResultsText: '没有结果', resetButtonTitle: '清除', displayDetails: '显示详情', backButtonTitle: '返回',
          footer: { selectText: '选择', navigateText: '移动', closeText: '关闭' } },
      } } },
    } },
    i18nRouting: false, // most pages are in English only
    socialLinks: [{ icon: 'github', link: codeHost, ariaLabel: 'The repository' }],
    outline: { level: [2, 3] },
  },
  locales: {
    root: {
      label: 'English', lang: 'en',
      themeConfig: {
        nav: [
          { text: 'First steps', link: '/first-five-minutes' }, { text: 'Concepts', link: '/concepts' },
          { text: 'Operating', link: '/operating' }, { text: 'API', link: '/reference/api' },
          { text: 'Compare', link: '/comparison' },
        ],
        sidebar: sidebars.english,
        footer: { message: 'Apache License 2.0' },
        skipToContentLabel: 'Skip to the text',
      },
    },
    zh: {
      label: '简体中文', lang: 'zh-CN', link: '/zh/',
      description: '集群化、多副本的定时服务：通过 HTTP 告诉它投递什么、何时投递。',
      themeConfig: {
        nav: [
          { text: '五分钟上手', link: '/zh/first-five-minutes' }, { text: '概念', link: '/zh/concepts' },
          { text: '英文文档', link: '/' },
        ],
        sidebar: { '/zh/': [...sidebars.chinese, { text: '英文文档', collapsed: true,
          items: sidebars.english.flatMap((group) => group.items).filter((page) => page.link) }] },
        outline: { level: [2, 3], label: '本页内容' },
        docFooter: { prev: '上一页', next: '下一页' },
        darkModeSwitchLabel: '外观', lightModeSwitchTitle: '浅色', darkModeSwitchTitle: '深色',
        sidebarMenuLabel: '菜单', returnToTopLabel: '回到顶部', langMenuLabel: '语言', skipToContentLabel: '跳到正文',
        footer: { message: 'Apache License 2.0' },
      },
    },
  },
});
