// VitePress's own theme without its font, in Belfry's colours.
import DefaultTheme from 'vitepress/theme-without-fonts';
import './style.css';

export default DefaultTheme;
